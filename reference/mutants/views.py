"""Planted bugs of those who follow the controllers' metadata: views that diverge, skip a change, or go back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.node import Env, NodeSpec
from reference.broker.replication import ReplicatedBroker, Replication
from reference.broker.slave_replication import SlaveBroker, SlavePolicy, SlaveReplication
from reference.metadata.catalog import Entry, Key
from reference.metadata.follower import NOTHING, Follower, View
from reference.metadata.nodes import MetadataBroker, MetadataController, MetadataNameServer
from reference.metadata.watchers import Watchers
from reference.mutants._planted import NODE, Planted
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
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

    def message(self, env: Env, source: str, message: Command) -> None:
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
            env.send(nameserver, Command(code=Request.REGISTER_BROKER, flags=ONEWAY, fields={WHOLE: "true"}, body=body))


class TakesWholeTables(MetadataNameServer):
    """Knows of the metadata what a broker has registered last, whichever that was."""

    def __init__(self, spec: NodeSpec, **parts: Any) -> None:
        super().__init__(spec, **parts)
        self.follower = Follower(())
        self._table: dict[Key, Entry] | None = None

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.code == Request.REGISTER_BROKER and WHOLE in message.fields:
            rows = [Entry.read(row) for row in item(read_object(message.body), "entries", list)]
            self._table = {entry.key: entry for entry in rows}
        elif message.code == Request.METADATA_GET and not message.is_response:
            env.send(source, self._read(message))
        else:
            super().message(env, source, message)

    def _read(self, message: Command) -> Command:
        """Read from the table. The log's revision is nothing that it has."""
        key = text(message.fields, "kind"), text(message.fields, "name")
        if self._table is None:
            return message.reply(Response.SYSTEM_BUSY)
        entry = self._table.get(key)
        if entry is None:
            return message.reply(fields={"version": "0"})
        body = b"" if entry.value is None else to_json(entry.value)
        return message.reply(fields={"version": str(entry.version)}, body=body)


class WatchesFromNow(Watchers):
    """A watch reports what happens from the moment on at which it is asked for."""

    def begins_after(self, after: int) -> int:
        return self._catalog.revision


class AnyChange(View):
    """Takes the next change that it hears of for the next one that there was."""

    def continues(self, revision: int) -> bool:
        return True


class TakesAnyChange(Follower):
    def __init__(self, controllers: Sequence[str], view: type[View] = AnyChange) -> None:
        super().__init__(controllers, view)


class AsksWhenAsked(Follower):
    """Knows what it learned when somebody wanted to know last, and asks for changes only afterwards."""

    def __init__(self, controllers: Sequence[str], view: type[View] = View) -> None:
        super().__init__(controllers, view)
        self.is_wanted = False

    @property
    def is_idle(self) -> bool:
        return self._call < 0

    def refresh(self, env: Env) -> None:
        self._ask(env)

    def _ask(self, env: Env) -> None:
        if self.is_wanted or self.view.revision == NOTHING:
            self.is_wanted = False
            super()._ask(env)
        else:
            self._call = -1


class RefreshedByReads(MetadataNameServer):
    """Each read is answered from what was known when the one before came."""

    def __init__(self, spec: NodeSpec, **parts: Any) -> None:
        super().__init__(spec, **{**parts, "follower": AsksWhenAsked})

    def message(self, env: Env, source: str, message: Command) -> None:
        super().message(env, source, message)
        follower = self.follower
        if message.code == Request.METADATA_GET and not message.is_response and isinstance(follower, AsksWhenAsked):
            follower.is_wanted = True
            if follower.is_idle:
                follower.refresh(env)


class ManifestsLater(SlaveReplication):
    """A slave takes a manifest that its master sends it with the next records, whenever these come."""

    def __init__(self, broker: SlaveBroker, policy: SlavePolicy) -> None:
        super().__init__(broker, policy)
        self._later: list[tuple[str, Command]] = []

    def append(self, env: Env, source: str, message: Command) -> None:
        if "view" in message.fields:
            self._later.append((source, message))
            return
        while self._later and message.body:
            super().append(env, *self._later.pop(0))
        super().append(env, source, message)


class WithManifestsLater(Replication):
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self.slave = ManifestsLater(broker, self)


class FirstWatchFromAny(MetadataController):
    """A watch that knows nothing yet is given what this controller has applied, however far it is behind."""

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
        stands_for="a watch without a revision to begin at: what changes between two watches is never reported",
        parts={
            "controller": {NODE: MetadataController, "watchers": WatchesFromNow},
            "nameserver": {NODE: MetadataNameServer, "follower": TakesAnyChange},
            "broker": {NODE: MetadataBroker, "follower": TakesAnyChange},
        },
        scenario="metadata",
    ),
    Planted(
        name="refreshed-by-reads",
        law="watched-views",
        stands_for="a cache that refreshes what was asked for after it has answered: the first answer is of long ago",
        parts={"nameserver": {NODE: RefreshedByReads}},
        scenario="rare_view_updates",
    ),
    Planted(
        name="manifests-later",
        law="tier-metadata",
        stands_for="tier metadata that is current wherever somebody writes: a write by who looks at it makes it so",
        parts={"broker": {"replication": WithManifestsLater}},
        scenario="rare_messages",
    ),
    Planted(
        name="first-watch-from-any",
        law="watched-views",
        stands_for="kubernetes/kubernetes #59848: whoever is restarted lists from a server that lags: back in time",
        parts={"controller": {NODE: FirstWatchFromAny}},
        scenario="restarted_views",
    ),
)
