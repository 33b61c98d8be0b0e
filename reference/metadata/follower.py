"""A view of the controllers' metadata, kept elsewhere: at a name server, at a broker.

The view is at each moment the state after some prefix of the controllers' log, and the prefix never gets shorter: not
by an answer that comes from a controller that lags, and not by a restart, though nothing is on a disk. The first answer
of a life is a linearizable read, which is at least as new as anything that anybody was ever shown. From then on changes
are asked for after the revision that is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.node import Env, Malformed
from reference.metadata.catalog import KINDS, Entry, Key, Kinds
from reference.metadata.watchers import POLL_NS
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import item, read_object, request_number, text, to_json, whole

TIMER = "metadata"
#: How long an answer may take beyond the time that a poll waits, and after how long the next controller is asked.
TIMEOUT_NS, RETRY_NS = POLL_NS + 500_000_000, 100_000_000
#: The part of a node whose requests these are (:func:`.request_number`).
_PART = 1
#: Nothing is known yet.
NOTHING = -1


@dataclass(frozen=True, slots=True)
class WatchAnswer:
    """An answer to a watch: all ``entries`` of ``revision``, or the ``changes`` up to it."""

    revision: int
    entries: Sequence[Entry] | None
    changes: Sequence[Entry]

    @staticmethod
    def read(message: Command, kinds: Kinds = KINDS) -> WatchAnswer:
        """Read an answer to a watch. Raises :class:`chaos.node.Malformed`."""
        body = read_object(message.body)
        rows = [Entry.read(row, kinds) for row in item(body, "entries" if "entries" in body else "changes", list)]
        revision = whole(message.fields, "revision")
        if any(entry.revision > revision for entry in rows):
            raise Malformed(f"an entry is newer than its revision {revision}")
        return WatchAnswer(revision, rows if "entries" in body else None, () if "entries" in body else rows)


class View:
    """The state after the log's prefix that ends with ``revision``."""

    def __init__(self) -> None:
        self.revision = NOTHING
        self.entries: dict[Key, Entry] = {}

    def is_newer(self, revision: int) -> bool:
        """Policy: whether a whole state of this revision takes the place of what is known."""
        return revision >= self.revision

    def continues(self, revision: int) -> bool:
        """Policy: whether a change of this revision is the next one."""
        return revision == self.revision + 1

    def take(self, found: WatchAnswer) -> bool:
        """Learn from an answer; False when changes are missing between it and what is known."""
        if found.entries is not None:
            if self.is_newer(found.revision):
                self.revision, self.entries = found.revision, {entry.key: entry for entry in found.entries}
            return True
        for entry in found.changes:
            if entry.revision > self.revision:
                if not self.continues(entry.revision):
                    return False
                self.revision, self.entries[entry.key] = entry.revision, entry
        return True


class Follower:
    """Keeps a :class:`View` current: one request is under way at a time, to one controller after the other as long as
    they don't answer or have nothing new."""

    kinds: Kinds = KINDS

    def __init__(self, controllers: Sequence[str], view: type[View] = View) -> None:
        self.view = view()
        self._controllers = controllers
        self._asked = 0
        self._requests = 0
        self._call = -1  # number of the request under way
        self._heard_ns = 0
        self._knows_gap = False  # changes are missing, so everything has to be asked for

    @property
    def _controller(self) -> str:
        return self._controllers[self._asked % len(self._controllers)]

    def is_cut_off(self, env: Env) -> bool:
        """Return whether no controller has answered for longer than it takes to ask all: the view may be an old one."""
        return env.mono_ns() - self._heard_ns > len(self._controllers) * TIMEOUT_NS

    def start(self, env: Env) -> None:
        self._heard_ns = env.mono_ns()
        if self._controllers:
            self._asked = env.rng.randrange(len(self._controllers))
            self._ask(env)

    def _ask(self, env: Env) -> None:
        self._requests += 1
        self._call = request_number(env.incarnation, self._requests, _PART)
        after = NOTHING if self._knows_gap else self.view.revision
        fields = {"after": str(after)}
        env.send(self._controller, Command(code=Request.METADATA_WATCH, opaque=self._call, fields=fields))
        env.set_timer(TIMER, TIMEOUT_NS)

    def _turn_away(self, env: Env) -> None:
        self._call = -1
        self._asked += 1
        env.set_timer(TIMER, RETRY_NS)

    def answered(self, env: Env, source: str, message: Command) -> bool:
        """Take an answer; False if it is none to this part of the node. Raises :class:`chaos.node.Malformed`."""
        if message.opaque != self._call or source != self._controller:
            return False
        if message.code != Response.SUCCESS:
            self._turn_away(env)
            return True
        found = self.understand(message)
        self._heard_ns = env.mono_ns()
        before = self.view.revision
        self._knows_gap = not self.view.take(found)
        if self.view.revision == before and not self._knows_gap:
            self._asked += 1  # it may be cut off from the others
        self._ask(env)
        return True

    def understand(self, message: Command) -> WatchAnswer:
        """Read an answer to a watch. Raises :class:`chaos.node.Malformed`."""
        return WatchAnswer.read(message, self.kinds)

    def timer(self, env: Env, name: str) -> bool:
        """Handle a timer. Return False if it is another part's."""
        if name != TIMER:
            return False
        if self._call >= 0:
            self._asked += 1
        self._ask(env)
        return True

    def closed(self, env: Env, peer: str) -> None:
        if self._call >= 0 and peer == self._controller:
            self._turn_away(env)

    def read(self, message: Command) -> Command:
        """Answer 9012 from the view. Raises :class:`chaos.node.Malformed`."""
        key = text(message.fields, "kind"), text(message.fields, "name")
        if self.view.revision == NOTHING:
            return message.reply(Response.SYSTEM_BUSY, remark="retry: nothing is known of the metadata yet")
        return answer(message, self.view.entries.get(key), self.view.revision)


def answer(message: Command, entry: Entry | None, revision: int) -> Command:
    """Return the answer to 9012 for an entry as of this revision; for one that never was: version 0."""
    fields = {"version": str(entry.version if entry is not None else 0), "revision": str(revision)}
    value = entry.value if entry is not None else None
    return message.reply(fields=fields, body=b"" if value is None else to_json(value))
