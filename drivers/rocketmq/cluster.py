"""Which nodes a RocketMQ cluster has, who belongs to whom, and how each of them is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec

from chaos.driver import Network, Profile
from chaos.errors import BadInput
from chaos.node import NodeSpec
from chaos.ops import QueueRef
from chaos.recipe import Recipe
from drivers._java.maven import LIB
from drivers._java.recipes import VERSIONS, WITHOUT_PROXY, proxy_jar, recipe
from drivers._remoting.dialled import DialledConnection
from drivers._remoting.requests import Asks
from drivers._remoting.wire import RemotingCodec
from drivers.rocketmq import properties
from drivers.rocketmq.programs import (
    BROKER,
    CONTROLLER,
    NAMESERVER,
    port_of,
    program_node,
    proxy_node,
    votes_port_of,
)
from drivers.rocketmq.tier_levels import LEVEL

CLUSTER = "stormproof"
#: What may be set otherwise: small files, short periods.
CONTROLLERS: Mapping[str, object] = {
    "mappedFileSize": 16_777_216,
    "scanNotActiveBrokerInterval": 1_000,
    "scanInactiveMasterInterval": 1_000,
}
BROKERS: Mapping[str, object] = {
    "registerNameServerPeriod": 10_000,
    "haSendHeartbeatInterval": 1_000,  # less than the next one, else an idle group flaps
    "haMaxTimeSlaveNotCatchup": 5_000,
    "syncBrokerMetadataPeriod": 1_000,
    "checkSyncStateSetPeriod": 1_000,
    "mappedFileSizeCommitLog": 16_777_216,
    "mappedFileSizeConsumeQueue": 60_000,
    "mappedFileSizeTimerLog": 1_048_576,
    "maxMessageSize": 1_048_576,
    "maxHashSlotNum": 10_000,
    "maxIndexNum": 40_000,
    "diskMaxUsedSpaceRatio": 95,
}
PROVIDER = "tieredBackendServiceProvider"
TIER: Mapping[str, object] = {
    "messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore",
    PROVIDER: "org.apache.rocketmq.tieredstore.provider.PosixFileSegment",
    LEVEL: "NOT_IN_DISK",
    "tieredStoreGroupCommitTimeout": 1_000,
    "tieredStoreGroupCommitCount": 16,
}
#: A proxy asks for routes as often as the other clients here do; by default it trusts them for 20 s.
PROXIES: Mapping[str, object] = {
    "topicRouteServiceCacheRefreshSeconds": 1,
}


class ControllerType(StrEnum):
    """What RocketMQ's controllers keep their log with."""

    DLEDGER = "dledger"
    JRAFT = "jraft"  # from 5.2.0 on


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """``groups``: each broker group's replicas; a group has ``queues`` of each topic, and the first group's come first
    in the history. ``embedded``: name servers are in the controllers' programs, the first in the first one's.
    ``controller_options`` and ``broker_options`` are properties of RocketMQ's: new ones, or others than the driver's
    own for what is neither an address nor promised, ``proxy_options`` are settings of proxies likewise. With a
    ``controller_package``, controllers are nodes of that package instead of programs."""

    version: str
    nameservers: tuple[str, ...]
    controllers: tuple[str, ...]
    groups: Mapping[str, tuple[str, ...]]
    queues: int
    tier: bool
    shared_tier: bool
    timeout_ms: int
    controller_type: ControllerType
    embedded: bool
    controller_options: Mapping[str, object]
    broker_options: Mapping[str, object]
    controller_package: str = ""
    proxies: tuple[str, ...] = ()
    proxy_options: Mapping[str, object] = field(default_factory=dict)

    @property
    def brokers(self) -> tuple[str, ...]:
        return tuple(name for replicas in self.groups.values() for name in replicas)

    def group_of(self, broker: str) -> str:
        return next(group for group, replicas in self.groups.items() if broker in replicas)

    def group_with(self, queue: QueueRef) -> str:
        return tuple(self.groups)[queue.index // self.queues]

    def node_at(self, address: str) -> str:
        """Return the node that listens at ``HOST:PORT``, or that has this name; "" for one that is none of ours."""
        port = address.rpartition(":")[2]
        nodes = (*self.nameservers, *self.controllers, *self.brokers)
        found = (name for name in nodes if address == name or str(port_of(name)) == port)
        return next(found, "")

    def host_of(self, nameserver: str) -> str:
        """Return the node whose program this name server is part of."""
        return self.controllers[self.nameservers.index(nameserver)] if self.embedded else nameserver

    def connect(self, network: Network, client: str, name: str) -> Asks:
        """Return the connection of a client with a node, or with a name server that is in another node's program."""
        if not self.embedded or name not in self.nameservers:
            return network.connect(client, name)
        return DialledConnection(network, client, self.host_of(name), NAMESERVER, RemotingCodec())

    # The programs

    def nodes(self, profile: Profile) -> list[NodeSpec]:
        """Return all nodes in the order of their start. Raises :class:`chaos.errors.BadInput` when the version is not
        installed, and ``ValueError`` for a package that isn't there, and for properties that are not the user's to set,
        or that RocketMQ doesn't know."""
        if self.proxies and self.version in WITHOUT_PROXY:
            published = ", ".join(one for one in VERSIONS if one not in WITHOUT_PROXY)
            raise BadInput(f"proxies: no proxy of {self.version} was published; take one of {published}")
        installed = recipe(self.version)
        lib = installed.program(LIB)
        own = {} if self.controller_package else self.controller_options
        for option, given, classes in (
            ("controller_options", own, properties.CONTROLLER),
            ("broker_options", self.broker_options, properties.BROKER),
            ("proxy_options", self.proxy_options, properties.PROXY),
        ):
            if complaint := properties.complain(option, given, lib, classes):
                raise ValueError(complaint)
        if self.proxies and not (installed.folder / proxy_jar(self.version)).is_file():
            raise BadInput(
                f"proxies: {installed.title} is installed without its proxy ({proxy_jar(self.version)}): remove"
                f" {installed.folder}, and run `stormproof install {installed.system}@{installed.version}`, with --from"
                " only for a folder that holds the proxy, too"
            )
        alone = () if self.embedded else self.nameservers
        return [
            *(program_node(name, NAMESERVER, installed, _nameserver(name)) for name in alone),
            *(self._controller(name, installed, profile) for name in self.controllers),
            *(program_node(name, BROKER, installed, self._broker(name, profile)) for name in self.brokers),
            *(proxy_node(name, installed, self._proxy(name)) for name in self.proxies),
        ]

    def _controller(self, name: str, installed: Recipe, profile: Profile) -> NodeSpec:
        if self.controller_package:
            return self._package_node(name, profile)
        votes = {"votes": votes_port_of(name)} if self.controller_type == ControllerType.JRAFT else {}
        given = self._controller_properties(name, profile)
        if not self.embedded:
            return program_node(name, CONTROLLER, installed, {"listenPort": port_of(name), **given}, ports=votes)
        nameserver = self.nameservers[self.controllers.index(name)]
        both = {**_nameserver(nameserver), **given, "enableControllerInNamesrv": "true"}
        ports = {NAMESERVER: port_of(nameserver), **votes}
        return program_node(name, CONTROLLER, installed, both, main=NAMESERVER, ports=ports)

    def _provider(self) -> Mapping[str, object]:
        """Return who keeps a tier in files; 5.1.4 has that class in another package than later versions."""
        lib = recipe(self.version).program(LIB)
        found = properties.class_called("PosixFileSegment", lib, "rocketmq-tiered-store-*.jar")
        return {PROVIDER: found} if found else {}

    def _package_node(self, name: str, profile: Profile) -> NodeSpec:
        if find_spec(self.controller_package) is None:
            raise ValueError(f"controller_package: there is no package {self.controller_package!r}; try reference")
        options = {
            "controllers": list(self.controllers),
            "broker_timeout_ms": self.timeout_ms,
            "unclean": profile.unclean,
            **self.controller_options,
        }
        return NodeSpec(name=name, role=CONTROLLER, package=self.controller_package, options=options)

    def _controller_properties(self, name: str, profile: Profile) -> Mapping[str, object]:
        consensus = self._jraft(name) if self.controller_type == ControllerType.JRAFT else self._dledger(name)
        fixed = {
            **consensus,
            "controllerStorePath": "{disk}/controller",
            "configStorePath": "{disk}/controller.properties",
            "enableElectUncleanMaster": _word(profile.unclean),
            "notifyBrokerRoleChanged": "true",
        }
        return _merged("controller_options", fixed, CONTROLLERS, self.controller_options)

    def _dledger(self, name: str) -> Mapping[str, object]:
        """Return the options of a controller, which votes and serves at one port."""
        return {
            "controllerType": "DLedger",
            "controllerDLegerGroup": "controllers",
            "controllerDLegerPeers": ";".join(f"{_peer(one)}-{{ip:{one}}}:{port_of(one)}" for one in self.controllers),
            "controllerDLegerSelfId": _peer(name),
        }

    def _jraft(self, name: str) -> Mapping[str, object]:
        return {
            "controllerType": "jRaft",
            "jRaftGroupId": "controllers",
            "jRaftServerId": f"{{ip:{name}}}:{votes_port_of(name)}",
            "jRaftInitConf": ",".join(f"{{ip:{one}}}:{votes_port_of(one)}" for one in self.controllers),
            "jRaftControllerRPCAddr": ",".join(f"{{ip:{one}}}:{port_of(one)}" for one in self.controllers),
        }

    def _broker(self, name: str, profile: Profile) -> Mapping[str, object]:
        everyone = profile.acks == "all"
        fixed = {
            "brokerClusterName": CLUSTER,
            "brokerName": self.group_of(name),
            "brokerId": -1,
            "brokerRole": "SLAVE",
            "enableControllerMode": "true",
            "controllerAddr": ";".join(f"{{address:{one}}}" for one in self.controllers),
            "namesrvAddr": self._nameserver_addresses,
            "brokerIP1": "{ip}",
            "brokerIP2": "{ip}",
            "listenPort": port_of(name),
            "storePathRootDir": "{disk}/store",
            "storePathCommitLog": "{disk}/store/commitlog",
            "allAckInSyncStateSet": _word(everyone),
            "inSyncReplicas": 1 if everyone or profile.acks == "master" else int(profile.acks),
            "minInSyncReplicas": profile.min_in_sync,
            "flushDiskType": "SYNC_FLUSH" if profile.flush == "sync" else "ASYNC_FLUSH",
            "slaveReadEnable": "true",
            "autoCreateTopicEnable": "false",
            "controllerHeartBeatTimeoutMills": self.timeout_ms,
        }
        tier = {**TIER, **self._provider(), "tieredStoreFilePath": self._tier_folder} if self.tier else {}
        return _merged("broker_options", fixed, {**BROKERS, **tier}, self.broker_options)

    def _proxy(self, name: str) -> Mapping[str, object]:
        fixed = {
            "rocketMQClusterName": CLUSTER,
            "proxyClusterName": CLUSTER,
            "proxyName": name,
            "proxyMode": "cluster",
            "namesrvAddr": self._nameserver_addresses,
            "localServeAddr": "{ip}",
            "grpcServerPort": port_of(name),
            "useEndpointPortFromRequest": "true",  # its clients are to go on calling the address that they have
            "remotingListenPort": port_of(name) - 1,
        }
        return _merged("proxy_options", fixed, PROXIES, self.proxy_options)

    @property
    def _nameserver_addresses(self) -> str:
        return ";".join(f"{{ip:{self.host_of(one)}}}:{port_of(one)}" for one in self.nameservers)

    @property
    def tier_level(self) -> str:
        """With which level brokers read from the tier; "" without a tier."""
        return str({**TIER, **self.broker_options}[LEVEL]) if self.tier else ""

    @property
    def tier_holder(self) -> str:
        """The node on whose disk the tier of all brokers is; "" where each has one of its own."""
        return self.host_of(self.nameservers[0]) if self.shared_tier else ""

    @property
    def _tier_folder(self) -> str:
        """Nodes' disks are beside one another where all nodes are on one machine."""
        return f"{{disk}}/../{self.tier_holder}/tier" if self.shared_tier else "{disk}/tier"


def _merged(
    option: str, fixed: Mapping[str, object], chosen: Mapping[str, object], given: Mapping[str, object]
) -> Mapping[str, object]:
    """Return all properties of a node. Raises ``ValueError`` where one that is given is fixed, or isn't one line."""
    if taken := sorted(fixed.keys() & given.keys()):
        raise ValueError(
            f"{option}: {', '.join(taken)} can't be given; the driver's other options and the profile set it"
        )
    if broken := [key for key, value in given.items() if len(f"{key}={value}".splitlines()) != 1]:
        raise ValueError(f"{option}: {', '.join(map(repr, broken))} is not one line")
    words = {key: _word(value) if isinstance(value, bool) else value for key, value in given.items()}
    return {**fixed, **chosen, **words}


def _nameserver(name: str) -> Mapping[str, object]:
    return {
        "listenPort": port_of(name),
        "kvConfigPath": "{disk}/kvConfig.json",
        "configStorePath": "{disk}/namesrv.properties",
    }


def _peer(controller: str) -> str:
    """Return what DLedger calls a controller: ``n0`` the first."""
    return f"n{controller.rpartition('-')[2]}"


def _word(value: bool) -> str:
    return "true" if value else "false"
