"""A broker of the split: it serves the slices that meta gives it and keeps nothing that its end could take away.

It never touches a disk. Each start is a new life, which meta numbers; what the life before it owned is owned by others,
or by this one under a later epoch.

Options: ``metas``, ``cluster_id``, ``cluster``, ``groups``, ``slices``, ``heartbeat_ms``, ``ack_timeout_ms``,
``append_window``, ``call_timeout_ms``, ``read_timeout_ms``, ``member_grace_ms``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaos import events
from chaos.node import Env, NodeSpec
from reference.broker.parts import Refused
from reference.split.broker.asking import Stores
from reference.split.broker.owned import GroupParts, OwnedSlice
from reference.split.broker.pulling import Pulls
from reference.split.broker.serving import QueueRequests
from reference.split.broker.slices import Slices
from reference.split.broker.topics import Topics
from reference.split.calls import Calls
from reference.split.joining import Joining, Metas
from reference.split.options import layout_of, names_of, number_of
from reference.split.view import ClusterFollower
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import to_json

Handler = Callable[[Env, str, Command], None]
_MS = 1_000_000


class Broker:
    """The node. Its parts are classes, so that a planted bug is a subclass that overrides one method. ``appends``,
    ``commits`` and ``confirms`` are those of an open group."""

    def __init__(
        self,
        spec: NodeSpec,
        *,
        slices: type[Slices] = Slices,
        queue_requests: type[QueueRequests] = QueueRequests,
        pulls: type[Pulls] = Pulls,
        stores: type[Stores] = Stores,
        follower: type[ClusterFollower] = ClusterFollower,
        **group_parts: Any,
    ) -> None:
        options: Mapping[str, Any] = spec.options
        metas = names_of(options, "metas")
        self.calls = Calls()
        self.follower = follower(metas)
        self.cluster = self.follower.cluster
        self.stores = stores(
            self.calls,
            self.cluster,
            call_ns=number_of(options, "call_timeout_ms", 500) * _MS,
            read_ns=number_of(options, "read_timeout_ms", 1500) * _MS,
        )
        self.metas = Metas(self.calls, metas, str(options.get("cluster_id", "")))
        self.joining = Joining(self.metas, "broker", self._follow, heartbeat_ms=number_of(options, "heartbeat_ms", 200))
        parts = GroupParts(
            stores=self.stores,
            window=number_of(options, "append_window", 2),
            timeout_ns=number_of(options, "ack_timeout_ms", 3000) * _MS,
            **group_parts,
        )
        self.slices = slices(spec.name, self.cluster, layout_of(options), parts, self._closed_slice)
        self.pulls = pulls(self.slices, self.stores)
        self.topics = Topics(self.metas, self.cluster, parts.timeout_ns)
        self.clients = self.pulls.clients
        self._name = spec.name
        self._cluster_name = str(options.get("cluster", ""))
        self._grace_ns = number_of(options, "member_grace_ms", 30_000, 0) * _MS
        self._started_ns = 0
        self._handlers = self._table(queue_requests(self.slices, self.stores))

    def _table(self, queues: QueueRequests) -> Mapping[int, Handler]:
        return {
            Request.SEND_MESSAGE: queues.send,
            Request.SEND_MESSAGE_V2: queues.send,
            Request.UPDATE_CONSUMER_OFFSET: queues.commit,
            Request.QUERY_CONSUMER_OFFSET: queues.committed,
            Request.SEARCH_OFFSET_BY_TIMESTAMP: queues.search,
            Request.GET_MAX_OFFSET: queues.maximum,
            Request.GET_MIN_OFFSET: queues.minimum,
            Request.PULL_MESSAGE: self.pulls.pull,
            Request.LITE_PULL_MESSAGE: self.pulls.pull,
            Request.UPDATE_AND_CREATE_TOPIC: self.topics.create,
            Request.HEART_BEAT: self.pulls.subscriptions.heartbeat,
            Request.UNREGISTER_CLIENT: self.pulls.subscriptions.unregister,
            Request.GET_CONSUMER_LIST_BY_GROUP: self._members,
            Request.CHECK_CLIENT_CONFIG: self.pulls.subscriptions.check,
            Request.GET_BROKER_RUNTIME_INFO: self._runtime_info,
            Request.METADATA_GET: self._metadata,
            Request.DESCRIBE: self._describe,
        }

    # Policy

    def knows_all_members(self, env: Env) -> bool:
        """Return whether every client that lives has had the time to say so here, since this broker began or was given
        a slice. Before that, a list would lack some of them, and two consumers would take one queue."""
        return env.mono_ns() - max(self._started_ns, self.slices.gained_ns) >= self._grace_ns

    # Life

    def start(self, env: Env) -> None:
        env.trace(events.Start())
        self._started_ns = env.mono_ns()
        self.follower.start(env)
        self._begin_life(env)

    def _begin_life(self, env: Env) -> None:
        self.joining.start(env, f"{env.rng.getrandbits(64):016x}")

    def _follow(self, env: Env) -> None:
        """Act on what is known of meta's log by now."""
        if self.joining.has_joined and self._is_over():
            self.slices.close_all(env)
            self._begin_life(env)
        elif self.joining.has_joined:
            self.slices.follow(env, self.joining.number)
        self.topics.follow(env)

    def _is_over(self) -> bool:
        """Return whether this life is over, by a prefix of meta's log in which it had begun."""
        known, life = self.cluster.broker(self._name), self.joining.number
        return self.cluster.revision >= life and (known is None or known.life != life or not known.lives)

    def _closed_slice(self, env: Env, owned: OwnedSlice) -> None:
        self.pulls.abandon(env, owned)

    # Steps

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.is_response:
            self._answered(env, source, message)
            return
        handler = self._handlers.get(message.code)
        try:
            if handler is None:
                remark = f" request type {message.code} not supported"
                raise Refused(Response.REQUEST_CODE_NOT_SUPPORTED, remark)
            handler(env, source, message)
        except Refused as refusal:
            if not message.is_oneway:
                fields = {"incarnation": str(env.incarnation)}
                env.send(source, message.reply(refusal.code, fields, remark=str(refusal)))

    def _answered(self, env: Env, source: str, message: Command) -> None:
        before = self.cluster.revision
        if self.follower.answered(env, source, message):
            if self.cluster.revision != before:
                self._follow(env)
        elif self.calls.answered(env, source, message):
            self.pulls.wake(env)

    def timer(self, env: Env, name: str) -> None:
        if name == "held":
            self.pulls.timer(env)
        elif not (self.calls.timer(env, name) or self.slices.timer(env, name) or self.joining.timer(env, name)):
            self.follower.timer(env, name)

    def done(self, env: Env, token: int) -> None:
        """Nothing is ever synced here."""

    def closed(self, env: Env, peer: str) -> None:
        self.follower.closed(env, peer)
        self.calls.closed(env, peer)
        self.pulls.closed(env, peer)

    # Requests about the node

    def _members(self, env: Env, source: str, message: Command) -> None:
        """38: client ids of a group."""
        if not self.knows_all_members(env):
            raise Refused(
                Response.SYSTEM_ERROR, "this broker has just started, or got a slice, and can't know all consumers yet"
            )
        self.clients.members(env, source, message)

    def _metadata(self, env: Env, source: str, message: Command) -> None:
        """9012."""
        env.send(source, self.follower.read(message))

    def _runtime_info(self, env: Env, source: str, message: Command) -> None:
        """28."""
        opened = ",".join(one.name for _, one in sorted(self.slices.owned.items()) if one.is_open)
        table = {"brokerActive": str(bool(opened)).lower(), "slices": opened, "clusterName": self._cluster_name}
        env.send(source, message.reply(body=to_json({"table": table})))

    def _describe(self, env: Env, source: str, message: Command) -> None:
        """9301."""
        slices = {
            one.name: {"epoch": one.epoch, "state": "open" if one.is_open else "opening", "ends": one.ends()}
            for _, one in sorted(self.slices.owned.items())
        }
        value = {
            "slices": slices,
            "life": self.joining.number,
            "revision": self.cluster.revision,
            "incarnation": env.incarnation,
        }
        env.send(source, message.reply(body=to_json(value)))
