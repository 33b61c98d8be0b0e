"""The nodes of a cluster that keeps RIP-18's metadata: controllers that agree on it, name servers and brokers that
follow. Each is the plain node with one part more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from chaos import events
from chaos.node import Env, NodeSpec
from reference.broker.node import Broker
from reference.controller.node import UNATTENDED, Controller
from reference.controller.replicas import Outcome, check_entry, read_snapshot
from reference.metadata.catalog import (
    ANY,
    OP,
    ROUTE,
    Entry,
    check_change,
    content,
    read_change,
    read_entries,
    split,
)
from reference.metadata.follower import Follower
from reference.metadata.serving import CatalogServer
from reference.nameserver import NameServer
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import read_object, text, whole


class MetadataController(CatalogServer, Controller):
    """Entries of the metadata stand in the controllers' one log. An election there changes its group's route at the
    same place, so that the two never contradict one another."""

    def __init__(self, spec: NodeSpec, **parts: Any) -> None:
        super().__init__(spec, **parts)
        self._writes[Request.METADATA_PUT] = self._on_put

    # The state machine of the log

    def apply(self, env: Env, index: int, term: int, data: bytes) -> Outcome:
        entry = json.loads(data) if data else {}
        if entry.get("op") == OP:
            outcome = self._apply_change(entry)
            details = {**self.raft.log_fields(env, index), **self.raft.committed_fields(term)}
            env.trace(events.Applied(position=index, epoch=term, entry=outcome.changed, **details))
            if outcome.code == Response.SUCCESS:
                self._trace(env, index, self.catalog.entries[entry["kind"], entry["name"]])
        else:
            outcome = super().apply(env, index, term, data)
            self._follow_route(env, index, str(outcome.changed.get("group", "")))
        self.watchers.wake(env)
        return outcome

    def _apply_change(self, entry: dict[str, Any]) -> Outcome:
        group = self.replicas.groups.get(entry["name"]) if entry["kind"] == ROUTE else None
        if group is None or group.cluster == UNATTENDED:
            return self.catalog.apply(entry)
        changed = {"type": "none", "op": OP, "kind": ROUTE, "name": entry["name"], "code": Response.NO_PERMISSION}
        return Outcome(Response.NO_PERMISSION, "elections alone change the route of a group with brokers", changed)

    def _follow_route(self, env: Env, index: int, name: str) -> None:
        """Whatever was applied to a group, have its route say who is master now."""
        group = self.replicas.groups.get(name)
        if group is None or group.cluster == UNATTENDED or group.master_epoch == 0:
            return
        route = {"master": group.name(group.master) if group.master >= 0 else "", "epoch": group.master_epoch}
        known = self.catalog.entries.get((ROUTE, name))
        if known is None or known.value != route:
            self._trace(env, index, self.catalog.put((ROUTE, name), route))

    def _trace(self, env: Env, index: int, entry: Entry) -> None:
        env.trace(
            events.MetadataApplied(
                position=index,
                object=f"{entry.kind}/{entry.name}",
                version=entry.version,
                revision=entry.revision,
                content=content(entry.value),
            )
        )

    def check(self, data: bytes) -> None:
        entry = read_object(data) if data else {}
        if entry.get("op") == OP:
            check_change(entry)
        elif entry:
            check_entry(entry)

    def check_snapshot(self, snapshot: bytes) -> None:
        groups, entries = split(snapshot)
        read_snapshot(groups)
        read_entries(entries)

    def snapshot(self) -> Iterator[bytes]:
        return chain(super().snapshot(), self.catalog.pieces())

    def restore(self, env: Env, snapshot: bytes) -> None:
        super().restore(env, split(snapshot)[0])
        self.catalog.restore(snapshot)
        self.watchers.wake(env)

    # Requests

    def _on_put(self, env: Env, source: str, message: Command) -> None:
        fields = message.fields
        kind, name = text(fields, "kind"), text(fields, "name")
        entry = read_change(kind, name, whole(fields, "expectedVersion", ANY), message.body)

        def respond(env: Env, outcome: Outcome) -> Command:
            if outcome.code:
                return message.reply(outcome.code, remark=outcome.remark)
            fields = {key: str(outcome.changed[key]) for key in ("version", "revision")}
            return message.reply(fields=fields)

        self._write(env, source, message, entry, respond)


def _follower(spec: NodeSpec, make: type[Follower]) -> Follower:
    controllers = spec.options.get("controllers", ())
    assert isinstance(controllers, Sequence)
    return make(tuple(map(str, controllers)))


class MetadataNameServer(NameServer):
    """A name server with a view of the metadata, which it answers 9012 from. Which brokers there are it learns from
    their registrations; who of them is master, from elections in the log too, whichever says it first."""

    def __init__(self, spec: NodeSpec, *, follower: type[Follower] = Follower, **parts: Any) -> None:
        super().__init__(spec, **parts)
        self.follower = _follower(spec, follower)

    def start(self, env: Env) -> None:
        super().start(env)
        self.follower.start(env)

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.is_response:
            if self.follower.answered(env, source, message):
                self._learn_masters(env)
        elif message.code == Request.METADATA_GET and not message.is_oneway:
            env.send(source, self.follower.read(message))
        else:
            super().message(env, source, message)
            if message.code == Request.REGISTER_BROKER:
                self._learn_masters(env)

    def _learn_masters(self, env: Env) -> None:
        """Let the routes of groups that have registered name nobody whom the log has replaced."""
        for name, route in self.routes.groups.items():
            known = self.follower.view.entries.get((ROUTE, name))
            if known is not None and known.value is not None and known.value["epoch"] >= route.epoch:
                self.routes.elected(route, known.value["master"], known.value["epoch"])
        self._trace_changes(env)

    def timer(self, env: Env, name: str) -> None:
        if not self.follower.timer(env, name):
            super().timer(env, name)

    def closed(self, env: Env, peer: str) -> None:
        self.follower.closed(env, peer)
        super().closed(env, peer)


class MetadataBroker(Broker):
    """A broker with a view of the metadata, whatever its role is."""

    def __init__(self, spec: NodeSpec, *, follower: type[Follower] = Follower, **parts: Any) -> None:
        super().__init__(spec, **parts)
        self.follower = _follower(spec, follower)

    def start(self, env: Env) -> None:
        super().start(env)
        self.follower.start(env)

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.is_response and self.follower.answered(env, source, message):
            return
        if message.code == Request.METADATA_GET and not message.is_response and not message.is_oneway:
            env.send(source, self.follower.read(message))
        else:
            super().message(env, source, message)

    def timer(self, env: Env, name: str) -> None:
        if not self.follower.timer(env, name):
            super().timer(env, name)

    def closed(self, env: Env, peer: str) -> None:
        self.follower.closed(env, peer)
        super().closed(env, peer)
