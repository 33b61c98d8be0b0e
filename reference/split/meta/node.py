"""The meta node: agrees with others on nodes and their lives, topics, owners of slices and members of groups (RIP-19).

A member of Raft with a catalog that all others follow by the watch. The leader hears brokers and stores, and proposes
what follows from that; whatever it proposes is decided when it is applied.

Options: ``metas`` (all members), ``cluster_id``, ``groups``, ``slices``, ``replicas``, ``birth_stores``, ``moves``,
``broker_timeout_ms``, ``store_timeout_ms``, Raft's own, and ``metadata_kept``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from chaos import events
from chaos.node import Env, Malformed, NodeSpec
from reference.controller.dispatch import Pipeline
from reference.controller.replicas import Outcome
from reference.metadata.catalog import ANY, Catalog, read_entries, split
from reference.metadata.serving import CatalogServer
from reference.raft.messages import check_cluster
from reference.split import names
from reference.split.layout import slice_name
from reference.split.meta.deciding import Decisions
from reference.split.meta.entries import KEEP, Entry, check_entry
from reference.split.meta.state import ClusterCatalog, ClusterState
from reference.split.options import layout_of, names_of, number_of
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import listed, optional_text, read_object, text, whole

#: How often the leader looks who is silent, and whether slices are spread evenly.
SCAN_NS = 100_000_000
#: A node whose scans are so far from each other was stopped.
LATE_NS = 500_000_000
_SCAN, _DECIDE = "scan", "decide"
_NUMBERS = {"broker": "life", "store": "disk"}


class Meta(CatalogServer):
    """A node. ``state`` and ``decisions`` are the classes of its parts, beside those of its bases."""

    noun = "meta node"

    def __init__(
        self,
        spec: NodeSpec,
        *,
        state: type[ClusterState] = ClusterState,
        decisions: type[Decisions] = Decisions,
        catalog: type[Catalog] = ClusterCatalog,
        **parts: Any,
    ) -> None:
        options = spec.options
        super().__init__(spec, names_of(options, "metas") or (spec.name,), Pipeline, catalog=catalog, **parts)
        groups, slices = layout_of(options)
        replicas = number_of(options, "replicas", 3)
        self.state = state(self.catalog, groups=groups, slices=slices)
        self.decisions = decisions(
            self.state.cluster,
            groups=groups,
            slices=slices,
            replicas=replicas,
            birth_stores=number_of(options, "birth_stores", replicas),
            moves=number_of(options, "moves", 4),
            broker_timeout_ms=number_of(options, "broker_timeout_ms", 1500),
            store_timeout_ms=number_of(options, "store_timeout_ms", 5000),
        )
        self._leader_since_ns: int | None = None
        self._scanned_ns = 0
        self._writes |= {
            Request.META_REGISTER: self._on_register,
            Request.META_REPORT: self._on_report,
            Request.META_TOPIC: self._on_topic,
            Request.META_DELETE_TOPIC: self._on_delete_topic,
            Request.META_DRAIN: self._on_drain,
            Request.META_UNDRAIN: self._on_drain,
        }

    # The node

    def start(self, env: Env) -> None:
        super().start(env)
        env.set_timer(_SCAN, SCAN_NS)

    def timer(self, env: Env, name: str) -> None:
        if name == _SCAN:
            env.set_timer(_SCAN, SCAN_NS)
            self._forgive(env)
            self._decide(env)
            self._even_out(env)
        elif name == _DECIDE:
            self._decide(env)
        else:
            super().timer(env, name)

    def closed(self, env: Env, peer: str) -> None:
        super().closed(env, peer)
        ended = self.decisions.ended(peer)
        if ended is not None and self._may_decide:
            self._suggest(env, ended)

    # The state machine of the log

    def apply(self, env: Env, index: int, term: int, data: bytes) -> Outcome:
        outcome = self.state.apply(json.loads(data)) if data else Outcome(changed={"type": "noop"})
        details = {**self.raft.log_fields(env, index), **self.raft.committed_fields(term)}
        env.trace(events.Applied(position=index, epoch=term, entry=outcome.changed, **details))
        self.watchers.wake(env)
        if self.raft.is_leader and outcome.changed["type"] == "entry":
            env.set_timer(_DECIDE, 0)
        return outcome

    def check(self, data: bytes) -> None:
        if data:
            check_entry(read_object(data))

    def check_snapshot(self, snapshot: bytes) -> None:
        for entry in read_entries(split(snapshot)[1], self.catalog.kinds)[1].values():
            names.check_entry(entry)

    def snapshot(self) -> Iterator[bytes]:
        return self.catalog.pieces()

    def restore(self, env: Env, snapshot: bytes) -> None:
        self.catalog.restore(snapshot)
        self.watchers.wake(env)

    def role_changed(self, env: Env) -> None:
        if not self.raft.is_leader:
            self._leader_since_ns = None
            self.decisions.restart()
        elif self._leader_since_ns is None:
            self._leader_since_ns = env.mono_ns()

    # What the leader decides

    @property
    def _may_decide(self) -> bool:
        return self.raft.leads_committed and not self.raft.is_handing_over

    def _forgive(self, env: Env) -> None:
        """Give everybody a timeout more after this node was stopped: it has heard nobody meanwhile."""
        now_ns = env.mono_ns()
        if self._leader_since_ns is not None and now_ns - self._scanned_ns > LATE_NS:
            self._leader_since_ns = now_ns
        self._scanned_ns = now_ns

    def _decide(self, env: Env) -> None:
        if self._may_decide:
            for entry in list(self.decisions.due(self._leader_since_ns or 0, env.mono_ns())):
                self._suggest(env, entry)

    def _even_out(self, env: Env) -> None:
        for entry in list(self.decisions.evening_out()) if self._may_decide else ():
            self._suggest(env, entry)

    def _suggest(self, env: Env, entry: Entry) -> None:
        if self.decisions.begin(entry):
            self._propose(env, entry, lambda env, _: self.decisions.end(entry), own=True)

    # Requests

    def _request(self, env: Env, source: str, message: Command) -> None:
        if message.code == Request.META_HEARTBEAT:
            node, kind = self._node_of(source, message)
            self.decisions.heard(node, _number(message, _NUMBERS[kind]), env.mono_ns())
            if not message.is_oneway:
                env.send(source, message.reply())
        else:
            super()._request(env, source, message)

    def _node_of(self, source: str, message: Command) -> tuple[str, str]:
        """Return which node of the cluster speaks for itself, and its kind. Raises :class:`chaos.node.Malformed`."""
        check_cluster(message, self.raft.cluster_id)
        node, kind = text(message.fields, "node"), text(message.fields, "kind")
        if kind not in _NUMBERS:
            raise Malformed(f"kind must be {' or '.join(_NUMBERS)}, not {kind[:80]!r}")
        if node != source:
            raise Malformed(f"{source} is not {node[:80]}", Response.NO_PERMISSION)
        return node, kind

    def _not_leader(self, message: Command) -> Command:
        if not self.raft.leader:
            remark = "the meta nodes have no leader that a majority follows: nothing can be changed now"
            return message.reply(Response.CONTROLLER_NOT_LEADER, remark=remark)
        remark = f"{self.raft.leader} leads the meta nodes"
        return message.reply(Response.CONTROLLER_NOT_LEADER, {"leader": self.raft.leader}, remark=remark)

    def _change(
        self, env: Env, source: str, message: Command, entry: Entry, done: Callable[[Env], dict[str, str]]
    ) -> None:
        """Log a change; when it is applied, ``done`` says what its sender is answered beside the revision."""
        check_entry(entry)

        def respond(env: Env, outcome: Outcome) -> Command:
            if outcome.code:
                return message.reply(outcome.code, remark=outcome.remark)
            return message.reply(fields={**done(env), "revision": str(self.catalog.revision)})

        self._write(env, source, message, entry, respond)

    def _on_register(self, env: Env, source: str, message: Command) -> None:
        node, kind = self._node_of(source, message)
        if kind == "broker":
            entry = {"op": "register_broker", "node": node, "nonce": text(message.fields, "nonce")}
        else:
            zone = optional_text(message.fields, "zone")
            entry = {"op": "register_store", "node": node, "word": text(message.fields, "word"), "zone": zone}

        def done(env: Env) -> dict[str, str]:
            cluster = self.state.cluster
            number = getattr(cluster.broker(node) if kind == "broker" else cluster.store(node), _NUMBERS[kind])
            self.decisions.heard(node, number, env.mono_ns())
            return {_NUMBERS[kind]: str(number)}

        self._change(env, source, message, entry, done)

    def _on_report(self, env: Env, source: str, message: Command) -> None:
        """Learn from a group's leader which membership is committed. Who isn't among its voters can't know that."""
        fields = message.fields
        check_cluster(message, self.raft.cluster_id)
        node = text(fields, "node")
        disk, group, index = (_number(message, key) for key in ("disk", "group", "index"))
        body = read_object(message.body)
        voters, learners = listed(body, "voters", str), listed(body, "learners", str)
        if node != source or names.replica_name(node, disk) not in voters:
            raise Malformed(f"{source} is no voter of group {group} by its own report", Response.NO_PERMISSION)
        entry = {"op": "report", "group": group, "index": index, "voters": voters, "learners": learners}
        self._change(env, source, message, entry, lambda env: {})

    def _on_topic(self, env: Env, source: str, message: Command) -> None:
        fields, name = message.fields, text(message.fields, "topic")
        entry: Entry = {
            "op": "topic",
            "name": name,
            "queues": whole(fields, "queues", 0),
            "retain_ms": whole(fields, "retain_ms", KEEP),
            "retain_bytes": whole(fields, "retain_bytes", KEEP),
            "expected": whole(fields, "expectedVersion", ANY),
        }

        def done(env: Env) -> dict[str, str]:
            topic = self.state.cluster.topic(name)
            assert topic is not None
            return {key: str(getattr(topic, key)) for key in ("id", "version", "queues", "retain_ms", "retain_bytes")}

        self._change(env, source, message, entry, done)

    def _on_delete_topic(self, env: Env, source: str, message: Command) -> None:
        expected = whole(message.fields, "expectedVersion", ANY)
        entry = {"op": "delete_topic", "name": text(message.fields, "topic"), "expected": expected}
        self._change(env, source, message, entry, lambda env: {})

    def _on_drain(self, env: Env, source: str, message: Command) -> None:
        undo = message.code == Request.META_UNDRAIN
        entry = {"op": "drain", "node": text(message.fields, "node"), "undo": undo}
        self._change(env, source, message, entry, lambda env: {})

    # What it says of itself

    def describe(self, env: Env) -> dict[str, Any]:
        cluster = self.state.cluster
        owners = {slice_name(number): cluster.owner(number) for number in range(self.state.slices)}
        groups = cluster.groups()
        return super().describe(env) | {
            "incarnation": env.incarnation,
            "revision": self.catalog.revision,
            "brokers": {broker.name: {"life": broker.life, "state": broker.state} for broker in cluster.brokers()},
            "stores": {store.name: {"disk": store.disk, "state": store.state} for store in cluster.stores()},
            "owners": {name: {"broker": owner.broker, "epoch": owner.epoch} for name, owner in owners.items()},
            "groups": len(groups),
            "moving": [group.number for group in groups if not group.is_settled],
        }


def _number(message: Command, key: str) -> int:
    number = whole(message.fields, key)
    if number < 0:
        raise Malformed(f"{key} is {number}")
    return number
