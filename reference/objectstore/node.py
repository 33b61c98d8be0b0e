"""The object store: a node that keeps whole objects by key, with create-if-absent and compare-and-set.

Durability and order. Each write goes to a new file of its own, framed with a checksum, and takes effect only when that
file is durable: then, in one step, it becomes visible, is traced and is answered. So whatever anybody was ever shown
survives a crash. Writes to one key wait for one another; a read sees what has taken effect, and waits where a key is
being made or deleted (a list may already miss a key whose deletion is under way).

A crash may come between durability and the trace. Each frame therefore says up to which write everything had been
traced when it was made; recovery traces the writes after that mark (again, perhaps) with ``recovered = true``.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chaos import events
from chaos.node import DiskFull, Env, NodeSpec
from reference.objectstore import serving
from reference.objectstore.changes import Traced
from reference.objectstore.faults import TIMER as FAULTS_TIMER
from reference.objectstore.serving import EVENTS, Ask, StoreNode, about, about_ask, cas_row, frame, unframe
from reference.tier.objects import content_hash
from reference.wire.codes import Response

_FILE = re.compile(r"objects/(?P<key>.+)@(?P<sequence>\d{20})")
RECOVERY_FILES_PER_STEP = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """What stands under a key. ``version`` is that inside its content, or -1."""

    path: str
    at: int
    size: int
    hash: int
    version: int


@dataclass(slots=True, kw_only=True)
class _Write:
    """A write that waits for its disk: ``made`` is what will stand there (None after a deletion)."""

    ask: Ask
    sequence: int
    made: _Object | None
    row: Mapping[str, Any]  # of the trace


class ObjectStore(StoreNode):
    """The node. Options: none. It holds an index in memory and the objects themselves on its disk."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(lambda: {key: self._objects[key].size for key in self._keys})
        self._spec = spec
        self._objects: dict[str, _Object] = {}
        self._keys: list[str] = []  # sorted, for lists
        self._writes: dict[int, _Write] = {}  # by sync token
        self._sequence = 0
        self._traced = 0  # every write up to this one is in the trace; syncs end in order, so this is a mark
        self._recovering: deque[str] = deque()
        self._recovered: list[tuple[int, dict[str, Any]]] = []
        self._removed: list[str] = []

    # --- life ---

    def start(self, env: Env) -> None:
        env.trace(events.Start())
        self._recovering.extend(env.disk.list("objects/"))
        self._recover(env)

    def timer(self, env: Env, name: str) -> None:
        if name == "recover":
            self._recover(env)
        elif name == FAULTS_TIMER:
            self._faults.timer(env)

    def _recover(self, env: Env) -> None:
        """Read a slice of the files: keep the newest whole one of each key, remove torn and older ones."""
        for _ in range(min(RECOVERY_FILES_PER_STEP, len(self._recovering))):
            self._recover_file(env, self._recovering.popleft())
        if self._recovering:
            env.set_timer("recover", 0)
            return
        self._keys = sorted(self._objects)
        self._sequence = max(self._sequence, self._traced)
        for sequence, head in sorted(self._recovered, key=lambda item: item[0]):
            if sequence > self._traced:
                env.trace(EVENTS[head["verb"]](**head["row"], recovered=True))
        self._recovered.clear()
        if self._removed:
            env.disk.sync(self._removed)
        self._traced = self._sequence
        self.ready = True

    def _recover_file(self, env: Env, path: str) -> None:
        match = _FILE.fullmatch(path)
        content = unframe(env.disk.read(path))
        if match is not None:
            self._sequence = max(self._sequence, int(match["sequence"]))
        if match is None or content is None:
            self._remove(env, path)
            return
        head, at, size = content
        sequence, key = int(match["sequence"]), match["key"]
        self._traced = max(self._traced, head["traced"])
        self._recovered.append((sequence, head))
        # Paths of one key come in the order of their sequence numbers, so the later one is the newer one.
        older = self._objects.get(key)
        if older is not None:
            self._remove(env, older.path)
        self._objects[key] = _Object(path=path, at=at, size=size, hash=head["hash"], version=head["version"])

    def _remove(self, env: Env, path: str) -> None:
        env.disk.remove(path)
        self._removed.append(path)

    # --- requests ---

    def _reads_beside_a_write(self, ask: Ask) -> bool:
        return ask.key in self._objects

    def _get(self, env: Env, ask: Ask) -> None:
        found = self._objects.get(ask.key)
        if found is None:
            self._end(env, ask, Response.STORE_ABSENT, outcome="absent")
            return
        content = self._content(env, found)
        if content is None:
            self._end(env, ask, Response.SYSTEM_ERROR, outcome="damaged")
            return
        self._end(env, ask, Response.SUCCESS, found, content, hash=found.hash, outcome="found")

    def _list(self, env: Env, ask: Ask) -> None:
        """Answer one page, by key; ``after`` in the request continues behind the last key of the page before."""
        after = ask.message.fields.get("after", "")
        keys = self._keys if ask.listing is None else list(ask.listing)
        at = bisect_left(keys, max(ask.key, after + "\0" if after else ""))
        page: list[list[object]] = []
        while at < len(keys) and len(page) < serving.LIST_LIMIT and keys[at].startswith(ask.key):
            key = keys[at]
            page.append([key, self._objects[key].size if ask.listing is None else ask.listing[key]])
            at += 1
        more = at < len(keys) and keys[at].startswith(ask.key)
        self._send_page(env, ask, page, more=more)

    # --- writes ---

    def _serve(self, env: Env, ask: Ask) -> None:
        found = self._objects.get(ask.key)
        if ask.verb == "get":
            self._get(env, ask)
        elif ask.verb == "delete":
            self._delete(env, ask, found)
        elif ask.verb == "put" and found is not None:
            self._end(env, ask, Response.STORE_EXISTS, found, hash=found.hash, outcome="exists", size=found.size)
        elif ask.verb == "cas" and ask.expected != (found.version if found else -1):
            self._conflict(env, ask, found)
        else:
            self._create(env, ask)

    def _create(self, env: Env, ask: Ask) -> None:
        body = ask.message.body
        digest = content_hash(body)
        if ask.verb == "cas":
            row = about_ask(ask) | cas_row(ask) | {"hash": digest, "outcome": "applied"}
        else:
            row = about_ask(ask) | {"hash": digest, "outcome": "created", "size": len(body)}
        sequence = self._sequence + 1
        path = f"objects/{ask.key}@{sequence:020d}"
        head = {"verb": ask.verb, "traced": self._traced, "version": ask.version, "hash": digest, "row": row}
        data, at = frame(head, body)
        try:
            env.disk.write(path, 0, data)
        except DiskFull as error:
            self._end(env, ask, Response.SYSTEM_ERROR, outcome="disk full", remark=str(error))
            return
        self._sequence = sequence
        made = _Object(path=path, at=at, size=len(body), hash=digest, version=ask.version)
        self._begin(env, [path], _Write(ask=ask, sequence=sequence, made=made, row=row))

    def _delete(self, env: Env, ask: Ask, found: _Object | None) -> None:
        if found is None:
            self._end(env, ask, Response.STORE_ABSENT, outcome="absent")
            return
        self._sequence += 1
        env.disk.remove(found.path)
        write = _Write(ask=ask, sequence=self._sequence, made=None, row=about_ask(ask) | {"outcome": "deleted"})
        # The bytes can't be read from here on; those who ask wait until the deletion is durable.
        self._forget(ask.key)
        self._begin(env, [found.path], write)

    def _begin(self, env: Env, paths: list[str], write: _Write) -> None:
        self._busy[write.ask.key] = deque()
        self._writes[env.disk.sync(paths)] = write

    def done(self, env: Env, token: int) -> None:
        """Let a write that is durable take effect; trace and answer it; begin the next one on its key."""
        write = self._writes.pop(token, None)
        if write is None:
            return
        ask = write.ask
        if write.made is not None:
            self._put_in_place(env, ask.key, write.made)
        env.trace(EVENTS[ask.verb](**self._in_short(ask, write.row)))
        if ask.verb == "cas":
            self._traced_of[ask.key] = Traced.of(write.row["hash"], ask.content)
        self._traced = write.sequence
        self._respond(env, ask, ask.message.reply(fields=about(write.made)))
        self._go_on(env, ask.key)

    def _put_in_place(self, env: Env, key: str, made: _Object) -> None:
        older = self._objects.get(key)
        self._objects[key] = made
        if older is None:
            insort(self._keys, key)
        else:
            # Synced at once, so that no deletion of the key that comes later can become durable before this.
            env.disk.remove(older.path)
            env.disk.sync([older.path])

    def _forget(self, key: str) -> None:
        del self._objects[key]
        del self._keys[bisect_left(self._keys, key)]

    # --- answers ---

    def _conflict(self, env: Env, ask: Ask, found: _Object | None) -> None:
        stands = self._content(env, found) if found is not None else b""
        if stands is None:
            self._end(env, ask, Response.SYSTEM_ERROR, outcome="damaged")
            return
        row = cas_row(ask) | {"hash": content_hash(ask.message.body), "outcome": "conflict"}
        self._end(env, ask, Response.STORE_CONFLICT, found, stands, **row)

    def _content(self, env: Env, found: _Object) -> bytes | None:
        """Read an object; None when the disk gives back other bytes than were written."""
        content = env.disk.read(found.path, found.at, found.size)
        return content if content_hash(content) == found.hash else None
