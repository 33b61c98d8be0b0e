"""Who waits at a controller for the metadata to change: long polls, each from the revision that the asker knows.

A controller answers from what it has applied itself, leader or not: that is a prefix of the log, and one that ends
behind what the asker knows is never sent. So a watch costs no round of messages, and its answers are in order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from chaos.node import Env
from reference.metadata.catalog import Catalog
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import to_json

#: The timer that ends polls.
POLLS = "metadata polls"
#: How long a poll waits for a change.
POLL_NS = 1_000_000_000
MAX_WAITING = 4096
#: So many changes stand in one answer.
MAX_CHANGES = 256


@dataclass(frozen=True, slots=True)
class Waiting:
    source: str
    request: Command
    after: int
    deadline_ns: int


class Watchers:
    """The polls of one controller, in the order of their deadlines."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._waiting: deque[Waiting] = deque()

    def begins_after(self, after: int) -> int:
        """Policy: after which revision the changes are sent to a watch that knows all up to ``after``."""
        return after

    def ask(self, env: Env, source: str, request: Command, after: int) -> None:
        """Answer with the changes after this revision, as soon as there are any."""
        after = self.begins_after(after)
        if after < self._catalog.revision:
            env.send(source, self.changes(request, after))
        elif len(self._waiting) >= MAX_WAITING:
            env.send(source, request.reply(Response.SYSTEM_BUSY, remark=f"busy: {MAX_WAITING} polls wait here"))
        else:
            if not self._waiting:
                env.set_timer(POLLS, POLL_NS)
            self._waiting.append(Waiting(source, request, after, env.mono_ns() + POLL_NS))

    def wake(self, env: Env) -> None:
        """Answer the watches that wait for changes which the catalog may have by now."""
        ready = [one for one in self._waiting if one.after < self._catalog.revision]
        if ready:
            self._waiting = deque(one for one in self._waiting if one.after >= self._catalog.revision)
        for one in ready:
            env.send(one.source, self.changes(one.request, one.after))

    def timer(self, env: Env) -> None:
        """End polls that waited long enough, without a change."""
        now = env.mono_ns()
        while self._waiting and self._waiting[0].deadline_ns <= now:
            one = self._waiting.popleft()
            env.send(one.source, _answer(one.request, one.after, "changes", []))
        if self._waiting:
            env.set_timer(POLLS, self._waiting[0].deadline_ns - now)

    def closed(self, peer: str) -> None:
        self._waiting = deque(one for one in self._waiting if one.source != peer)

    def changes(self, request: Command, after: int) -> Command:
        """Answer with what happened after this revision; with everything there is where that is forgotten."""
        found = self._catalog.since(after)
        if found is None:
            return self.everything(request)
        rows = found[:MAX_CHANGES]
        return _answer(request, rows[-1].revision, "changes", [entry.row() for entry in rows])

    def everything(self, request: Command) -> Command:
        rows = [entry.row() for entry in self._catalog.entries.values()]
        return _answer(request, self._catalog.revision, "entries", rows)


def _answer(request: Command, revision: int, what: str, rows: list[list[object]]) -> Command:
    return request.reply(fields={"revision": str(revision)}, body=to_json({what: rows}))
