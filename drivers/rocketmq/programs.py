"""The nodes of a RocketMQ cluster as programs: command, configuration, ports.

Each node has ports of its own numbers, so that a cluster also fits on one address, and so that an address in an answer
names a node. A broker has three: clients', the replicas' (one above), and a fast one for its slaves (two below, which
can't be configured).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from chaos.driver import Profile
from chaos.node import NodeSpec
from chaos.program import PortAccepts, Program
from chaos.recipe import Recipe
from drivers.rocketmq import properties
from drivers.rocketmq.recipes import JAVA, LIB, recipe

CLUSTER, GROUP = "stormproof", "broker-a"
NAMESERVER, CONTROLLER, BROKER = "nameserver", "controller", "broker"
#: The first node's port and the distance to the next one's.
_PORTS = {NAMESERVER: (9876, 1), CONTROLLER: (9976, 1), BROKER: (10911, 20)}
_MAINS = {
    NAMESERVER: "org.apache.rocketmq.namesrv.NamesrvStartup",
    CONTROLLER: "org.apache.rocketmq.controller.ControllerStartup",
    BROKER: "org.apache.rocketmq.broker.BrokerStartup",
}
_SMALL_HEAP = ("-Xms32m", "-Xmx160m")
_HEAPS = {
    NAMESERVER: _SMALL_HEAP,
    CONTROLLER: _SMALL_HEAP,
    BROKER: ("-Xms128m", "-Xmx448m", "-XX:MaxDirectMemorySize=384m"),
}
#: For each node in a container; they take a fifth less.
_MEMORY_MB = {NAMESERVER: 384, CONTROLLER: 384, BROKER: 1024}
_FLAGS = ("-server", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
_BASE = "java.base/"
#: Packages of Java's own that RocketMQ reaches into.
_OPENED = ("java.lang", "java.nio", "java.util", "jdk.internal.ref", "sun.nio.ch")
_EXPORTED = ("sun.nio.ch", "jdk.internal.ref")
#: RocketMQ brings logback under a name of its own. Standard output is kept with the run. What INFO tells of roles, sets
#: in sync and where a log was cut is what a finding is followed by.
_LOGGING = """\
<configuration>
  <appender name="out" class="org.apache.rocketmq.logging.ch.qos.logback.core.ConsoleAppender">
    <encoder class="org.apache.rocketmq.logging.ch.qos.logback.classic.encoder.PatternLayoutEncoder">
      <pattern>%d{HH:mm:ss.SSS} %-5level %logger{0} - %msg%n</pattern>
    </encoder>
  </appender>
  <logger name="RocketmqBroker" level="INFO"/>
  <logger name="RocketmqStore" level="INFO"/>
  <logger name="RocketmqController" level="INFO"/>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""
#: A JVM that starts while others do, on two cores.
BEGIN_S = 300.0
ORDERLY_S = 20.0
#: What may be set otherwise: small files, short periods.
_CONTROLLER: Mapping[str, object] = {
    "mappedFileSize": 16_777_216,
    "scanNotActiveBrokerInterval": 1_000,
    "scanInactiveMasterInterval": 1_000,
}
_BROKER: Mapping[str, object] = {
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
_TIER: Mapping[str, object] = {
    "messageStorePlugIn": "org.apache.rocketmq.tieredstore.TieredMessageStore",
    "tieredBackendServiceProvider": "org.apache.rocketmq.tieredstore.provider.PosixFileSegment",
    "tieredStorageLevel": "NOT_IN_DISK",
    "tieredStoreGroupCommitTimeout": 1_000,
    "tieredStoreGroupCommitCount": 16,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Which nodes there are, and how they are set up. ``controller_options`` and ``broker_options`` are properties of
    RocketMQ's: new ones, or others than the driver's own for what is neither an address nor promised. With a
    ``controller_package``, controllers are nodes of that package instead of programs."""

    version: str
    nameservers: tuple[str, ...]
    controllers: tuple[str, ...]
    brokers: tuple[str, ...]
    tier: bool
    shared_tier: bool
    timeout_ms: int
    controller_options: Mapping[str, object]
    broker_options: Mapping[str, object]
    controller_package: str = ""

    def nodes(self, profile: Profile) -> list[NodeSpec]:
        """All nodes in the order of their start. Raises :class:`chaos.errors.BadInput` when the version is not
        installed, and ``ValueError`` for a package that isn't there, and for properties that are not the user's to
        set, or that RocketMQ doesn't know."""
        installed = recipe(self.version)
        lib = installed.program(LIB)
        own = {} if self.controller_package else self.controller_options
        for option, given, classes in (
            ("controller_options", own, properties.CONTROLLER),
            ("broker_options", self.broker_options, properties.BROKER),
        ):
            if complaint := properties.complain(option, given, lib, classes):
                raise ValueError(complaint)
        return [
            *(_node(name, NAMESERVER, installed, _nameserver()) for name in self.nameservers),
            *(self._controller(name, installed, profile) for name in self.controllers),
            *(_node(name, BROKER, installed, self._broker(name, profile)) for name in self.brokers),
        ]

    def node_at(self, address: str) -> str:
        """The node that listens at ``HOST:PORT``, or that has this name; "" for one that is none of ours."""
        port = address.rpartition(":")[2]
        nodes = (*self.nameservers, *self.controllers, *self.brokers)
        found = (name for name in nodes if address == name or str(port_of(name)) == port)
        return next(found, "")

    def _controller(self, name: str, installed: Recipe, profile: Profile) -> NodeSpec:
        if not self.controller_package:
            return _node(name, CONTROLLER, installed, self._properties(name, profile))
        if find_spec(self.controller_package) is None:
            raise ValueError(f"controller_package: there is no package {self.controller_package!r}; try reference")
        options = {
            "controllers": list(self.controllers),
            "broker_timeout_ms": self.timeout_ms,
            "unclean": profile.unclean,
            **self.controller_options,
        }
        return NodeSpec(name=name, role=CONTROLLER, package=self.controller_package, options=options)

    def _properties(self, name: str, profile: Profile) -> Mapping[str, object]:
        peers = (f"{peer_id(peer)}-{{ip:{peer}}}:{port_of(peer)}" for peer in self.controllers)
        fixed = {
            "controllerType": "DLedger",
            "controllerDLegerGroup": "controllers",
            "controllerDLegerPeers": ";".join(peers),
            "controllerDLegerSelfId": peer_id(name),
            "controllerStorePath": "{disk}/controller",
            "configStorePath": "{disk}/controller.properties",
            "enableElectUncleanMaster": _word(profile.unclean),
            "notifyBrokerRoleChanged": "true",
        }
        return _merged("controller_options", fixed, _CONTROLLER, self.controller_options)

    def _broker(self, name: str, profile: Profile) -> Mapping[str, object]:
        everyone = profile.acks == "all"
        fixed = {
            "brokerClusterName": CLUSTER,
            "brokerName": GROUP,
            "brokerId": -1,
            "brokerRole": "SLAVE",
            "enableControllerMode": "true",
            "controllerAddr": ";".join(f"{{address:{one}}}" for one in self.controllers),
            "namesrvAddr": ";".join(f"{{ip:{one}}}:{port_of(one)}" for one in self.nameservers),
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
        tier = {**_TIER, "tieredStoreFilePath": self._tier_folder} if self.tier else {}
        return _merged("broker_options", fixed, {**_BROKER, **tier}, self.broker_options)

    @property
    def tier_holder(self) -> str:
        """The node on whose disk the tier of all brokers is; "" where each has one of its own."""
        return self.nameservers[0] if self.shared_tier else ""

    @property
    def _tier_folder(self) -> str:
        """Nodes' disks are beside one another where all nodes are on one machine."""
        return f"{{disk}}/../{self.tier_holder}/tier" if self.shared_tier else "{disk}/tier"


def _merged(
    option: str, fixed: Mapping[str, object], chosen: Mapping[str, object], given: Mapping[str, object]
) -> Mapping[str, object]:
    """All properties of a node. Raises ``ValueError`` where one that is given is fixed, or isn't one line."""
    if taken := sorted(fixed.keys() & given.keys()):
        raise ValueError(
            f"{option}: {', '.join(taken)} can't be given; the driver's other options and the profile set it"
        )
    if broken := [key for key, value in given.items() if len(f"{key}={value}".splitlines()) != 1]:
        raise ValueError(f"{option}: {', '.join(map(repr, broken))} is not one line")
    words = {key: _word(value) if isinstance(value, bool) else value for key, value in given.items()}
    return {**fixed, **chosen, **words}


def _nameserver() -> Mapping[str, object]:
    return {"kvConfigPath": "{disk}/kvConfig.json", "configStorePath": "{disk}/namesrv.properties"}


def port_of(name: str) -> int:
    """The port at which clients find the node of this name."""
    role, _, number = name.rpartition("-")
    first, step = _PORTS[role]
    return first + step * int(number)


def peer_id(controller: str) -> str:
    """What RocketMQ calls a controller: ``n0`` the first."""
    return f"n{controller.rpartition('-')[2]}"


def _node(name: str, role: str, installed: Recipe, properties: Mapping[str, object]) -> NodeSpec:
    port = port_of(name)
    ports = {"main": port, "ha": port + 1, "fast": port - 2} if role == BROKER else {"main": port}
    own: Mapping[str, object] = {} if role == BROKER else {"listenPort": port}
    program = Program(
        argv=_command(role),
        files={
            "node.conf": "".join(f"{key}={value}\n" for key, value in {**own, **properties}.items()),
            "logback.xml": _LOGGING,
        },
        env={"ROCKETMQ_HOME": "{home}"},
        ports=ports,
        ready=PortAccepts(),
        begin_s=BEGIN_S,
        orderly_s=ORDERLY_S,
        keep=("node.conf", "logs/**", *(_KEPT if role == BROKER else ())),
        memory_mb=_MEMORY_MB[role],
        recipe=installed,
    )
    return NodeSpec(name=name, role=role, program=program)


#: Of a broker's disk, what tells its state and isn't large.
_KEPT = ("store/epochFileCheckpoint*", "store/checkpoint", "store/brokerIdentity", "store/config/*.json")


#: The machine's own Java, or what came with the jars.
_START = f'java=java; command -v java >/dev/null || java=$0/{JAVA}; exec "$java" "$@"'


def _command(role: str) -> Sequence[str]:
    return (
        *("/bin/sh", "-c", _START, "{installed}"),
        *_FLAGS,
        *_HEAPS[role],
        *(f"--add-opens={_BASE}{package}=ALL-UNNAMED" for package in _OPENED),
        *(f"--add-exports={_BASE}{package}=ALL-UNNAMED" for package in _EXPORTED),
        "-Drocketmq.home.dir={home}",
        "-Duser.home={home}",
        "-Djava.io.tmpdir={home}",  # what a killed program leaves there would stay on the machine
        "-Drmq.logback.configurationFile={home}/logback.xml",
        *("-cp", f"{{installed}}/{LIB}/*", _MAINS[role], "-c", "{home}/node.conf"),
    )


def _word(value: bool) -> str:
    return "true" if value else "false"
