"""The name server of a split cluster: who owns which slice, and how many of a topic's queues lie there.

Brokers don't register here. All that is said follows from a view of meta's catalog, which never goes back: a topic's
entry says how many queues it has, arithmetic where they lie, and owners' entries which broker serves a slice.

Options: ``metas``, ``groups``, ``slices``, ``cluster``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.node import Env, NodeSpec
from reference.metadata.follower import NOTHING
from reference.routing import Place, RouteServer
from reference.split.layout import count_in, slice_name
from reference.split.names import Owner
from reference.split.options import layout_of, names_of
from reference.split.view import ClusterFollower
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import to_json

#: A client that may send may read.
_PERM = 6
#: These need something to be known.
_ABOUT_ROUTES = (
    Request.GET_ROUTEINFO_BY_TOPIC,
    Request.GET_BROKER_CLUSTER_INFO,
    Request.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
)


class NameServer(RouteServer):
    """A node. ``follower`` is the class that keeps its view."""

    def __init__(self, spec: NodeSpec, *, follower: type[ClusterFollower] = ClusterFollower) -> None:
        super().__init__()
        self.follower = follower(names_of(spec.options, "metas"))
        self.cluster = self.follower.cluster
        self._groups, self._slices = layout_of(spec.options)
        self._name = str(spec.options.get("cluster", "split"))

    def is_served(self, owner: Owner) -> bool:
        """Policy: whether clients are sent to an owner: to one whose life goes on."""
        return self.cluster.is_current(owner)

    # What clients ask for

    def places(self) -> Mapping[str, Place]:
        owners = [self.cluster.owner(number) for number in range(self._slices)]
        return {owner.name: self._place(owner) for owner in owners if owner.epoch}

    def _place(self, owner: Owner) -> Place:
        master = owner.broker if self.is_served(owner) else ""
        return Place(self._name, owner.epoch, master, {"0": master} if master else {})

    def queues_of(self, topic: str) -> Mapping[str, Mapping[str, Any]]:
        known = self.cluster.topic(topic)
        if known is None:
            return {}
        layout = self._groups, self._slices
        counts = {
            slice_name(number): count_in(number, known.id, known.queues, *layout) for number in range(self._slices)
        }
        return {name: self._queues(count) for name, count in counts.items() if count}

    def _queues(self, count: int) -> Mapping[str, Any]:
        return {"perm": _PERM, "readQueueNums": count, "writeQueueNums": count, "topicSysFlag": 0}

    def topics(self) -> Sequence[str]:
        return [topic.name for topic in self.cluster.topics()]

    # The node

    def start(self, env: Env) -> None:
        self.follower.start(env)

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.is_response:
            if self.follower.answered(env, source, message):
                self._trace_changes(env)
        elif message.is_oneway:
            return
        elif message.code == Request.METADATA_GET:
            env.send(source, self.follower.read(message))
        elif message.code in _ABOUT_ROUTES and self.cluster.revision == NOTHING:
            env.send(source, message.reply(Response.SYSTEM_BUSY, remark="retry: nothing is known of the routes yet"))
        else:
            super().message(env, source, message)

    def timer(self, env: Env, name: str) -> None:
        self.follower.timer(env, name)

    def done(self, env: Env, token: int) -> None:
        """Nothing is ever synced here."""

    def closed(self, env: Env, peer: str) -> None:
        self.follower.closed(env, peer)

    def _on_describe(self, env: Env, source: str, message: Command) -> Command:
        known = {"incarnation": env.incarnation, "revision": self.cluster.revision}
        return message.reply(body=to_json(self.describe() | known))
