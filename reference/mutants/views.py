"""Planted bugs of those who follow the controllers' metadata: views that diverge, skip a change, or go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chaos.node import ONEWAY, Env, Message, NodeSpec
from reference.metadata.catalog import Entry, Key
from reference.metadata.follower import NOTHING, Follower, View
from reference.metadata.nodes import MetadataBroker, MetadataController, MetadataNameServer
from reference.metadata.watchers import Watchers
from reference.mutants._planted import NODE, Planted
from reference.wire.codes import Request, Response
from reference.wire.fields import item, read_object, text, to_json

#: Marks a registration that brings a whole table, and the timer of those that come without a reason.
WHOLE, REGISTER = "wholeTable", "register tables"
REGISTER_NS = 1_000_000_000


class RegistersWholeTables(MetadataBroker):
    """Registers all that it knows of the metadata at every name server, at each change and once a second."""

    def __init__(self, spec: NodeSpec, **parts: Any) -> None:
        super().__init__(spec, **parts)
        nameservers = spec.options.get("nameservers", ())
        assert isinstance(nameservers, Sequence)
        self._nameservers = nameservers
        self._registered = NOTHING

    def start(self, env: Env) -> None:
        super().start(env)
        env.set_timer(REGISTER, REGISTER_NS)

    def message(self, env: Env, source: str, message: Message) -> None:
        super().message(env, source, message)
        if self.follower.view.revision != self._registered:
            self._register(env)

    def timer(self, env: Env, name: str) -> None:
        if name == REGISTER:
            env.set_timer(REGISTER, REGISTER_NS)
            self._register(env)
        else:
            super().timer(env, name)

    def _register(self, env: Env) -> None:
        view = self.follower.view
        self._registered = view.revision
        body = to_json({"entries": [entry.row() for entry in view.entries.values()]})
        for nameserver in self._nameservers if view.revision != NOTHING else ():
            env.send(nameserver, Message(code=Request.REGISTER_BROKER, flags=ONEWAY, fields={WHOLE: "true"}, body=body))


class TakesWholeTables(MetadataNameServer):
    """Knows of the metadata what a broker has registered last, whichever that was."""

    def __init__(self, spec: NodeSpec, **parts: Any) -> None:
        super().__init__(spec, **parts)
        self.follower = Follower(())
        self._table: dict[Key, Entry] | None = None

    def message(self, env: Env, source: str, message: Message) -> None:
        if message.code == Request.REGISTER_BROKER and WHOLE in message.fields:
            rows = [Entry.read(row) for row in item(read_object(message.body), "entries", list)]
            self._table = {entry.key: entry for entry in rows}
        elif message.code == Request.METADATA_GET and not message.is_response:
            env.send(source, self._read(message))
        else:
            super().message(env, source, message)

    def _read(self, message: Message) -> Message:
        """The log's revision is nothing that a table has."""
        key = text(message.fields, "kind"), text(message.fields, "name")
        if self._table is None:
            return message.reply(Response.SYSTEM_BUSY)
        entry = self._table.get(key)
        if entry is None:
            return message.reply(fields={"version": "0"})
        body = b"" if entry.value is None else to_json(entry.value)
        return message.reply(fields={"version": str(entry.version)}, body=body)


class WatchesFromNow(Watchers):
    """A watch tells what happens from the moment on at which it is asked for."""

    def begins_after(self, after: int) -> int:
        return self._catalog.revision


class AnyChange(View):
    """Takes the next change that it hears of for the next one that there was."""

    def continues(self, revision: int) -> bool:
        return True


class TakesAnyChange(Follower):
    def __init__(self, controllers: Sequence[str], view: type[View] = AnyChange) -> None:
        super().__init__(controllers, view)


class FirstWatchFromAny(MetadataController):
    """Who knows nothing yet is told what this controller has applied, however far it is behind."""

    def answers_first_watch_locally(self) -> bool:
        return True


MUTANTS = (
    Planted(
        name="full-connections",
        law="watched-views",
        stands_for="RocketMQ's registrations: each broker sends whole tables to every name server; the last one counts",
        parts={"broker": {NODE: RegistersWholeTables}, "nameserver": {NODE: TakesWholeTables}},
        scenario="metadata",
    ),
    Planted(
        name="watch-from-now",
        law="watched-views",
        stands_for="a watch without a revision to begin at: what changes between two watches is never told",
        parts={
            "controller": {NODE: MetadataController, "watchers": WatchesFromNow},
            "nameserver": {NODE: MetadataNameServer, "follower": TakesAnyChange},
            "broker": {NODE: MetadataBroker, "follower": TakesAnyChange},
        },
        scenario="metadata",
    ),
    Planted(
        name="first-watch-from-any",
        law="watched-views",
        stands_for="kubernetes/kubernetes #59848: whoever is restarted lists from a server that lags: back in time",
        parts={"controller": {NODE: FirstWatchFromAny}},
        scenario="restarted_views",
    ),
)
