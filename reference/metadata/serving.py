"""A node whose log builds a catalog: it answers who reads an entry of it, or watches it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from chaos.node import Env, Malformed, NodeSpec
from reference.controller.server import LogServer
from reference.metadata.catalog import Catalog
from reference.metadata.follower import NOTHING, answer
from reference.metadata.watchers import POLLS, Watchers
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import text, whole


class CatalogServer(LogServer):
    """A member of Raft with a catalog. ``catalog`` and ``watchers`` are the classes of its parts.

    Options: ``metadata_kept``, of how many changes a watch gets each one.
    """

    def __init__(
        self,
        spec: NodeSpec,
        *args: Any,
        catalog: type[Catalog] = Catalog,
        watchers: type[Watchers] = Watchers,
        **parts: Any,
    ) -> None:
        super().__init__(spec, *args, **parts)
        self.catalog = catalog(int(str(spec.options.get("metadata_kept", 1024))))
        self.watchers = watchers(self.catalog)
        self._reads[Request.METADATA_GET] = self._entry

    def answers_first_watch_locally(self) -> bool:
        """Policy: whether a watch that knows nothing is given what this controller has applied, however old that is."""
        return False

    def _request(self, env: Env, source: str, message: Command) -> None:
        if message.code == Request.METADATA_WATCH:
            self._on_watch(env, source, message)
        else:
            super()._request(env, source, message)

    def _entry(self, message: Command) -> Callable[[], Command]:
        key = text(message.fields, "kind"), text(message.fields, "name")
        return lambda: answer(message, self.catalog.entries.get(key), self.catalog.revision)

    def _on_watch(self, env: Env, source: str, message: Command) -> None:
        after = whole(message.fields, "after", NOTHING)
        if message.is_oneway:
            raise Malformed("a watch needs an answer")
        if not self.raft.is_leader and not self.raft.leader:
            env.send(source, message.reply(Response.SYSTEM_BUSY, remark=f"this {self.noun} knows no leader"))
        elif after != NOTHING:
            self.watchers.ask(env, source, message, after)
        elif self.answers_first_watch_locally():
            env.send(source, self.watchers.everything(message))
        else:
            self._read(env, source, message, lambda: self.watchers.everything(message))

    def timer(self, env: Env, name: str) -> None:
        if name == POLLS:
            self.watchers.timer(env)
        else:
            super().timer(env, name)

    def closed(self, env: Env, peer: str) -> None:
        self.watchers.closed(peer)
        super().closed(env, peer)
