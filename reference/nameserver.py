"""The name server: which brokers serve a topic, and which of a group is its master.

Everything is in memory: brokers register again every second, so a restart forgets nothing for long. A registration is
believed only as far as its master epoch goes: an older epoch never takes the master's place, and a newer one puts the
older master out of the route at once.

Option ``expire_ms``: a registration that isn't renewed for so long is dropped; one whose connection breaks, at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from chaos.node import Env, Malformed, NodeSpec
from reference.routing import Place, RouteServer
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import as_object, item, optional_text, read_object, text, whole
from reference.wire.properties import FIXED, properties

MASTER_ID = 0
#: What a name server remembers at most; a broker that registers more is refused.
MAX_GROUPS, MAX_BROKERS, MAX_TOPICS = 1024, 256, 1 << 14
#: What routes say of a topic, and what they say where its broker does not.
_TOPIC_CONFIG = {"perm": 6, "readQueueNums": 0, "writeQueueNums": 0, "topicSysFlag": 0}
_WRITE = 2
_CODE = Response.SYSTEM_ERROR
SCAN_NS = 250_000_000
SCAN = "expire routes"


@dataclass(slots=True)
class Registration:
    """One broker's place in the route. ``source`` is the node that registered it: its end is the registration's."""

    address: str
    broker: int
    epoch: int
    source: str
    heard_ns: int


@dataclass(slots=True)
class Route:
    """A group: the newest master epoch that was ever registered, its brokers by address, its topics. ``writable``:
    whether clients may send to it, as administrators have said last."""

    cluster: str
    epoch: int = 0
    brokers: dict[str, Registration] = field(default_factory=dict)
    topics: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    topics_epoch: int = -1
    writable: bool = True

    @property
    def master(self) -> str:
        return next((known.address for known in self.brokers.values() if known.broker == MASTER_ID), "")

    def addresses(self) -> dict[str, str]:
        """Node names by broker id; 0 is the master."""
        ordered = sorted((known.broker, known.address) for known in self.brokers.values())
        return {str(broker): address for broker, address in ordered}


class Routes:
    """The route table."""

    def __init__(self) -> None:
        self.groups: dict[str, Route] = {}

    def is_stale(self, route: Route, epoch: int) -> bool:
        """Policy: whether a master of this epoch may not enter the route any more."""
        return epoch < route.epoch

    def register(
        self, group: str, cluster: str, registration: Registration, topics: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        """Take a registration; False when it is refused because a newer master is known."""
        route = self.groups.setdefault(group, Route(cluster))
        if registration.broker == MASTER_ID:
            if self.is_stale(route, registration.epoch):
                return False
            route.epoch = max(route.epoch, registration.epoch)
            for known in list(route.brokers.values()):
                if known.broker == MASTER_ID and known.address != registration.address:
                    del route.brokers[known.address]
        elif registration.epoch > route.epoch:
            route.epoch = registration.epoch
            self._drop_masters(route)
        for known in list(route.brokers.values()):
            if known.broker == registration.broker and known.address != registration.address:
                del route.brokers[known.address]
        route.brokers[registration.address] = registration
        if registration.broker == MASTER_ID or registration.epoch > route.topics_epoch:
            route.topics = dict(topics) if registration.broker == MASTER_ID else {**route.topics, **topics}
            route.topics_epoch = registration.epoch
        return True

    def elected(self, route: Route, master: str, epoch: int) -> None:
        """Take in what the controllers' log says of this epoch or a later one: "" is nobody. A master that hasn't
        registered yet is named once it does."""
        route.epoch = epoch
        self._drop_masters(route)
        if master in route.brokers:
            route.brokers[master] = replace(route.brokers[master], broker=MASTER_ID, epoch=epoch)

    def _drop_masters(self, route: Route) -> None:
        for known in list(route.brokers.values()):
            if known.broker == MASTER_ID and known.epoch < route.epoch:
                del route.brokers[known.address]

    def unregister(self, group: str, address: str, broker: int) -> None:
        route = self.groups.get(group)
        known = route.brokers.get(address) if route is not None else None
        if route is not None and known is not None and known.broker == broker:
            del route.brokers[address]

    def forget(self, topic: str) -> None:
        """Forget a topic: only brokers that register it again have it from now on."""
        for route in self.groups.values():
            route.topics.pop(topic, None)

    def drop_source(self, source: str) -> None:
        """Drop what came over a connection that broke."""
        for route in self.groups.values():
            for known in list(route.brokers.values()):
                if known.source == source:
                    del route.brokers[known.address]

    def expire(self, before_ns: int) -> None:
        """Drop what was last renewed before this moment."""
        for route in self.groups.values():
            for known in list(route.brokers.values()):
                if known.heard_ns < before_ns:
                    del route.brokers[known.address]


class NameServer(RouteServer):
    """A node. ``routes`` is the class of its table."""

    def __init__(self, spec: NodeSpec, *, routes: type[Routes] = Routes) -> None:
        super().__init__()
        self.routes = routes()
        self._expire_ns = int(str(spec.options.get("expire_ms", 10_000))) * 1_000_000
        self._options = spec.options
        self._handlers |= {
            Request.GET_NAMESERVER_CONFIG: self._on_config,
            Request.UPDATE_NAMESERVER_CONFIG: self._on_change_config,
            Request.DELETE_TOPIC_IN_NAMESERVER: self._on_delete_topic,
            Request.WIPE_WRITE_PERM: lambda env, source, message: self._on_write_perm(message, writable=False),
            Request.ADD_WRITE_PERM: lambda env, source, message: self._on_write_perm(message, writable=True),
            Request.REGISTER_BROKER: self._on_register,
            Request.UNREGISTER_BROKER: self._on_unregister,
        }

    def start(self, env: Env) -> None:
        env.set_timer(SCAN, SCAN_NS)

    def timer(self, env: Env, name: str) -> None:
        env.set_timer(SCAN, SCAN_NS)
        self.routes.expire(env.mono_ns() - self._expire_ns)
        self._trace_changes(env)

    def done(self, env: Env, token: int) -> None:
        """Nothing is ever synced here."""

    def closed(self, env: Env, peer: str) -> None:
        self.routes.drop_source(peer)
        self._trace_changes(env)

    # Requests

    def _on_register(self, env: Env, source: str, message: Command) -> Command:
        fields = message.fields
        address, broker = text(fields, "brokerAddr", _CODE), whole(fields, "brokerId", code=_CODE)
        group, cluster = text(fields, "brokerName", _CODE), optional_text(fields, "clusterName", code=_CODE)
        epoch, topics = _read_topics(message.body)
        if group not in self.routes.groups and len(self.routes.groups) >= MAX_GROUPS:
            raise Malformed(f"{MAX_GROUPS} groups are known already", _CODE)
        known = self.routes.groups[group].brokers if group in self.routes.groups else {}
        if address not in known and len(known) >= MAX_BROKERS:
            raise Malformed(f"{MAX_BROKERS} brokers of {group} are known already", _CODE)
        registration = Registration(address, broker, epoch, source, env.mono_ns())
        if not self.routes.register(group, cluster, registration, topics):
            return message.reply()  # as RocketMQ does: success, without effect and with an empty header
        master = self.routes.groups[group].master
        answer = {"haServerAddr": master, "masterAddr": master} if broker != MASTER_ID and master else {}
        return message.reply(fields=answer)

    def _on_unregister(self, env: Env, source: str, message: Command) -> Command:
        fields = message.fields
        group, address = text(fields, "brokerName", _CODE), text(fields, "brokerAddr", _CODE)
        self.routes.unregister(group, address, whole(fields, "brokerId", code=_CODE))
        return message.reply()

    def _on_write_perm(self, message: Command, *, writable: bool) -> Command:
        """205 and 327: from now on routes say that clients may not send to a group, or that they may."""
        route = self.routes.groups.get(text(message.fields, "brokerName", _CODE))
        if route is not None:
            route.writable = writable
        count = "addTopicCount" if writable else "wipeTopicCount"
        return message.reply(fields={count: str(0 if route is None else len(route.topics))})

    def _on_delete_topic(self, env: Env, source: str, message: Command) -> Command:
        """216."""
        self.routes.forget(text(message.fields, "topic", _CODE))
        return message.reply()

    def _on_config(self, env: Env, source: str, message: Command) -> Command:
        return message.reply(body=properties({"expire_ms": self._expire_ns // 1_000_000, **self._options}))

    def _on_change_config(self, env: Env, source: str, message: Command) -> Command:
        return message.reply(Response.NO_PERMISSION, remark=FIXED)

    # What clients ask for

    def places(self) -> dict[str, Place]:
        return {
            group: Place(route.cluster, route.epoch, route.master, route.addresses())
            for group, route in self.routes.groups.items()
        }

    def queues_of(self, topic: str) -> dict[str, Mapping[str, Any]]:
        known = {group: route for group, route in self.routes.groups.items() if route.brokers}
        return {
            group: route.topics[topic] if route.writable else _read_only(route.topics[topic])
            for group, route in known.items()
            if topic in route.topics
        }

    def topics(self) -> set[str]:
        return {topic for route in self.routes.groups.values() if route.brokers for topic in route.topics}


def _read_only(config: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**config, "perm": config["perm"] & ~_WRITE}


def _read_topics(body: bytes) -> tuple[int, dict[str, Mapping[str, int]]]:
    """Return the epoch of a registration, and its topics, each with what routes say of it. Raises
    :class:`chaos.node.Malformed`."""
    registration = read_object(body, _CODE) if body else {}
    wrapper = as_object(registration.get("topicConfigSerializeWrapper") or {}, _CODE)
    version = as_object(wrapper.get("dataVersion") or {}, _CODE)
    table = as_object(wrapper.get("topicConfigTable") or {}, _CODE)
    if len(table) > MAX_TOPICS:
        raise Malformed(f"a group has at most {MAX_TOPICS} topics", _CODE)
    topics: dict[str, Mapping[str, int]] = {}
    for topic, config in table.items():
        text({"the name of a topic": topic}, "the name of a topic", _CODE)
        asked = as_object(config, _CODE)
        topics[topic] = {key: item(asked, key, int, default, _CODE) for key, default in _TOPIC_CONFIG.items()}
    return item(version, "stateVersion", int, 0, _CODE), topics
