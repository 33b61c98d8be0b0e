"""The object store: a node that keeps whole objects by key, with create-if-absent and compare-and-set.

Durability and order. Each write goes to a new file of its own, framed with a checksum, and takes effect only when that
file is durable: then, in one step, it becomes visible, is traced and is answered. So whatever anybody was ever shown
survives a crash. Writes to one key wait for one another; a read sees what has taken effect, and waits where a key is
being made or deleted (a list may already miss a key whose deletion is under way).

A crash may come between durability and the trace. Each frame therefore says up to which write everything had been
traced when it was made; recovery traces the writes after that mark (again, perhaps) with ``recovered = true``.
"""

from __future__ import annotations

import json
import re
import struct
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from chaos import events
from chaos.node import DiskFull, Env, Malformed, NodeSpec
from reference.objectstore.changes import Traced
from reference.objectstore.faults import REFUSALS, Faults, Listing, TierEffect
from reference.objectstore.faults import TIMER as FAULTS_TIMER
from reference.tier.objects import content_hash
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import optional_text, read_object, to_json, whole
from reference.wire.requests import KEY, KEY_PREFIX, MAX_CONTENT_BYTES

_FRAME = struct.Struct(">II")  # CRC-32 of what follows; length of the JSON head that follows
_FILE = re.compile(r"objects/(?P<key>.+)@(?P<sequence>\d{20})")
_VERBS = {
    Request.STORE_PUT: "put",
    Request.STORE_CAS: "cas",
    Request.STORE_GET: "get",
    Request.STORE_LIST: "list",
    Request.STORE_DELETE: "delete",
}

#: An answer holds a whole object beside its header, in a frame of 16 MiB.
MAX_OBJECT_BYTES = 15 << 20
MAX_SHOWN = 80
RECOVERY_FILES_PER_STEP = 64
LIST_LIMIT = 5000
MAX_WAITING_PER_KEY = 256
#: What is traced of a request, by its verb.
_EVENTS: Mapping[str, type[Any]] = {
    "put": events.StorePut,
    "cas": events.StoreCas,
    "get": events.StoreGet,
    "delete": events.StoreDelete,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """A request of a client, as the store needs it."""

    caller: str
    message: Command
    verb: str
    key: str
    request: str
    queue: int
    expected: int = -1
    content: Mapping[str, Any]  # the body of a compare-and-set as JSON; empty where it is none
    refusal: TierEffect | None = None  # it is refused, for this reason
    answer_lost: bool = False  # its answer gets lost
    listing: Listing | None = None  # what a list is to show instead of what there is

    @property
    def version(self) -> int:
        return _number(self.content, "version")


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

    ask: _Ask
    sequence: int
    made: _Object | None
    row: Mapping[str, Any]  # of the trace


class ObjectStore:
    """The node. Options: none. It holds an index in memory and the objects themselves on its disk."""

    def __init__(self, spec: NodeSpec) -> None:
        self._spec = spec
        self._objects: dict[str, _Object] = {}
        self._keys: list[str] = []  # sorted, for lists
        self._busy: dict[str, deque[_Ask]] = {}  # keys with a write under way → the requests that wait for it
        self._writes: dict[int, _Write] = {}  # by sync token
        self._sequence = 0
        self._traced = 0  # every write up to this one is in the trace; syncs end in order, so this is a mark
        self._recovering: deque[str] = deque()
        self._recovered: list[tuple[int, dict[str, Any]]] = []
        self._removed: list[str] = []
        self._ready = False
        self._traced_of: dict[str, Traced] = {}  # by key, what this life's trace last said of it
        self._faults = Faults(lambda: {key: self._objects[key].size for key in self._keys})

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

    def closed(self, env: Env, peer: str) -> None:
        for waiting in self._busy.values():
            kept = [ask for ask in waiting if ask.caller != peer]
            waiting.clear()
            waiting.extend(kept)

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
                env.trace(_EVENTS[head["verb"]](**head["row"], recovered=True))
        self._recovered.clear()
        if self._removed:
            env.disk.sync(self._removed)
        self._traced = self._sequence
        self._ready = True

    def _recover_file(self, env: Env, path: str) -> None:
        match = _FILE.fullmatch(path)
        content = _unframe(env.disk.read(path))
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

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.is_response:
            return
        if message.code == Request.DESCRIBE:
            body = json.dumps({"role": "objectstore", "objects": len(self._objects), "ready": self._ready})
            env.send(source, message.reply(body=body.encode()))
            return
        if self._faults.message(env, source, message):
            return
        verb = _VERBS.get(message.code)  # type: ignore[call-overload]
        if verb is None:
            env.send(source, message.reply(Response.REQUEST_CODE_NOT_SUPPORTED, remark=f"code {message.code}"))
        elif not self._ready:
            env.send(source, message.reply(Response.SYSTEM_BUSY, remark="recovering"))
        else:
            self._apply_faults(env, self._ask(source, message, verb))

    def _ask(self, source: str, message: Command, verb: str) -> _Ask:
        """Understand a request. Raises :class:`chaos.node.Malformed`."""
        fields, code = message.fields, Response.MESSAGE_ILLEGAL
        key = fields.get("prefix" if verb == "list" else "key", "")
        if not (KEY_PREFIX if verb == "list" else KEY).fullmatch(key):
            raise Malformed(f"expected a key of letters, digits and ._-/, got {key[:MAX_SHOWN]!r}", code)
        if len(message.body) > MAX_OBJECT_BYTES:
            raise Malformed(f"expected at most {MAX_OBJECT_BYTES} bytes, got {len(message.body)}", code)
        if verb == "cas" and len(message.body) > MAX_CONTENT_BYTES:
            raise Malformed(f"expected content of at most {MAX_CONTENT_BYTES} bytes, got {len(message.body)}", code)
        queue = whole(fields, "queue", -1, code=code)
        expected = whole(fields, "expected", code=code) if verb == "cas" else -1
        ask = _Ask(
            caller=source,
            message=message,
            verb=verb,
            key=key,
            request=optional_text(fields, "request", code=code),
            queue=queue,
            expected=expected,
            content=_json(message.body) if verb == "cas" else {},
        )
        if verb == "cas" and ask.version <= expected:
            raise Malformed(f"expected content whose version is above {expected}, got {ask.version}", code)
        return ask

    def _apply_faults(self, env: Env, ask: _Ask) -> None:
        """Take a request, as the rules that hit it will have it."""
        treatment = self._faults.treat(env, ask.caller, ask.verb, ask.request)
        ask = replace(ask, answer_lost=treatment.answer_lost, refusal=treatment.refusal, listing=treatment.listing)
        if treatment.delay_ns or self._faults.holding:
            self._faults.hold(env, treatment.delay_ns, lambda env: self._take(env, ask))
        else:
            self._take(env, ask)

    def _take(self, env: Env, ask: _Ask) -> None:
        if ask.refusal is not None:
            code, remark = REFUSALS[ask.refusal]
            self._respond(env, ask, ask.message.reply(code, remark=remark))
        elif ask.verb == "list":
            self._list(env, ask)
        elif ask.key not in self._busy or (ask.verb == "get" and ask.key in self._objects):
            self._serve(env, ask)
        elif len(self._busy[ask.key]) < MAX_WAITING_PER_KEY:
            self._busy[ask.key].append(ask)
        else:
            self._respond(env, ask, ask.message.reply(Response.SYSTEM_BUSY, remark="too many writes wait for this key"))

    def _get(self, env: Env, ask: _Ask) -> None:
        found = self._objects.get(ask.key)
        if found is None:
            self._end(env, ask, Response.STORE_ABSENT, outcome="absent")
            return
        content = self._content(env, found)
        if content is None:
            self._end(env, ask, Response.SYSTEM_ERROR, outcome="damaged")
            return
        self._end(env, ask, Response.SUCCESS, found, content, hash=found.hash, outcome="found")

    def _list(self, env: Env, ask: _Ask) -> None:
        """Answer one page, by key; ``after`` in the request continues behind the last key of the page before."""
        after = ask.message.fields.get("after", "")
        keys = self._keys if ask.listing is None else list(ask.listing)
        at = bisect_left(keys, max(ask.key, after + "\0" if after else ""))
        page: list[list[object]] = []
        while at < len(keys) and len(page) < LIST_LIMIT and keys[at].startswith(ask.key):
            key = keys[at]
            page.append([key, self._objects[key].size if ask.listing is None else ask.listing[key]])
            at += 1
        more = at < len(keys) and keys[at].startswith(ask.key)
        env.trace(events.StoreList(**_about_ask(ask), outcome="listed"))
        fields = {"more": "true" if more else "false"}
        self._respond(env, ask, ask.message.reply(fields=fields, body=json.dumps(page).encode()))

    # --- writes ---

    def _serve(self, env: Env, ask: _Ask) -> None:
        """Answer a read, begin a write or refuse it: no other write is under way on its key."""
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

    def _create(self, env: Env, ask: _Ask) -> None:
        body = ask.message.body
        digest = content_hash(body)
        if ask.verb == "cas":
            row = _about_ask(ask) | _cas_row(ask) | {"hash": digest, "outcome": "applied"}
        else:
            row = _about_ask(ask) | {"hash": digest, "outcome": "created", "size": len(body)}
        sequence = self._sequence + 1
        path = f"objects/{ask.key}@{sequence:020d}"
        head = {"verb": ask.verb, "traced": self._traced, "version": ask.version, "hash": digest, "row": row}
        frame, at = _frame(head, body)
        try:
            env.disk.write(path, 0, frame)
        except DiskFull as error:
            self._end(env, ask, Response.SYSTEM_ERROR, outcome="disk full", remark=str(error))
            return
        self._sequence = sequence
        made = _Object(path=path, at=at, size=len(body), hash=digest, version=ask.version)
        self._begin(env, [path], _Write(ask=ask, sequence=sequence, made=made, row=row))

    def _delete(self, env: Env, ask: _Ask, found: _Object | None) -> None:
        if found is None:
            self._end(env, ask, Response.STORE_ABSENT, outcome="absent")
            return
        self._sequence += 1
        env.disk.remove(found.path)
        write = _Write(ask=ask, sequence=self._sequence, made=None, row=_about_ask(ask) | {"outcome": "deleted"})
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
        env.trace(_EVENTS[ask.verb](**self._in_short(ask, write.row)))
        if ask.verb == "cas":
            self._traced_of[ask.key] = Traced.of(write.row["hash"], ask.content)
        self._traced = write.sequence
        self._respond(env, ask, ask.message.reply(fields=_about(write.made)))
        waiting = self._busy.pop(ask.key)
        while waiting and ask.key not in self._busy:
            self._serve(env, waiting.popleft())
        if waiting:
            self._busy[ask.key].extend(waiting)

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

    def _conflict(self, env: Env, ask: _Ask, found: _Object | None) -> None:
        stands = self._content(env, found) if found is not None else b""
        if stands is None:
            self._end(env, ask, Response.SYSTEM_ERROR, outcome="damaged")
            return
        row = _cas_row(ask) | {"hash": content_hash(ask.message.body), "outcome": "conflict"}
        self._end(env, ask, Response.STORE_CONFLICT, found, stands, **row)

    def _content(self, env: Env, found: _Object) -> bytes | None:
        """Read an object; None when the disk gives back other bytes than were written."""
        content = env.disk.read(found.path, found.at, found.size)
        return content if content_hash(content) == found.hash else None

    def _end(
        self,
        env: Env,
        ask: _Ask,
        code: Response,
        found: _Object | None = None,
        body: bytes = b"",
        *,
        remark: str = "",
        **row: Any,
    ) -> None:
        """Trace and answer a request that changes nothing."""
        env.trace(_EVENTS[ask.verb](**_about_ask(ask), **self._in_short(ask, row)))
        self._respond(env, ask, ask.message.reply(code, fields=_about(found), body=body, remark=remark))

    def _in_short(self, ask: _Ask, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a row of the trace with the changes of a content instead of all of it, where that is shorter."""
        before = self._traced_of.get(ask.key)
        changes = before.changes(ask.content) if before is not None and "content" in row else None
        if changes is None:
            return row
        return {name: value for name, value in row.items() if name != "content"} | {"changes": changes}

    def _respond(self, env: Env, ask: _Ask, answer: Command) -> None:
        if not ask.answer_lost:
            env.send(ask.caller, answer)


def _about_ask(ask: _Ask) -> dict[str, Any]:
    return {"queue": ask.queue, "caller": ask.caller, "key": ask.key, "request": ask.request}


def _cas_row(ask: _Ask) -> dict[str, Any]:
    """Columns and value of a compare-and-set's trace: the store knows of manifests only what their JSON says."""
    columns = {"epoch": "epoch", "offset": "end", "position": "position"}
    row: dict[str, Any] = {column: _number(ask.content, name) for column, name in columns.items()}
    return row | {"expected": ask.expected, "version": ask.version, "content": ask.content}


def _about(found: _Object | None) -> dict[str, str]:
    """Return what stands under the key, for answers."""
    if found is None:
        return {"version": "-1"}
    return {"version": str(found.version), "hash": str(found.hash), "size": str(found.size)}


def _number(content: Mapping[str, Any], name: str) -> int:
    value = content.get(name, -1)
    return value if type(value) is int else -1


def _json(content: bytes) -> dict[str, Any]:
    try:
        return read_object(content)
    except Malformed:
        return {}


def _frame(head: Mapping[str, object], body: bytes) -> tuple[bytes, int]:
    """Return a file's bytes, and where the object's own begin in them."""
    encoded = to_json(head)
    content = len(encoded).to_bytes(4, "big") + encoded + body
    return crc32(content).to_bytes(4, "big") + content, _FRAME.size + len(encoded)


def _unframe(data: bytes) -> tuple[dict[str, Any], int, int] | None:
    """Return the head of a file, where its object begins, and the object's size; None when it is torn."""
    if len(data) < _FRAME.size:
        return None
    checksum, length = _FRAME.unpack_from(data)
    at = _FRAME.size + length
    if crc32(memoryview(data)[4:]) != checksum or at > len(data):
        return None
    return json.loads(data[_FRAME.size : at]), at, len(data) - at
