"""What every object store of the reference system does, wherever its objects stand: it reads requests, lets the harness
have it get some wrong, has those for one key wait for one another, and traces and answers them."""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol
from zlib import crc32

from chaos import events
from chaos.node import Env, Malformed
from reference.objectstore.changes import Traced
from reference.objectstore.faults import REFUSALS, Faults, Listing, TierEffect
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import optional_text, read_object, to_json, whole
from reference.wire.requests import KEY, KEY_PREFIX, MAX_CONTENT_BYTES

_FRAME = struct.Struct(">II")  # CRC-32 of what follows; length of the JSON head that follows
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
LIST_LIMIT = 5000
MAX_WAITING_PER_KEY = 256
#: What is traced of a request, by its verb.
EVENTS: Mapping[str, type[Any]] = {
    "put": events.StorePut,
    "cas": events.StoreCas,
    "get": events.StoreGet,
    "delete": events.StoreDelete,
}


class Stored(Protocol):
    """What stands under a key. ``version`` is that inside its content, or -1."""

    @property
    def size(self) -> int: ...

    @property
    def hash(self) -> int: ...

    @property
    def version(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
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
        return number(self.content, "version")


class StoreNode:
    """The part of an object store that knows nothing of where objects stand. ``listing`` returns the sizes of the
    objects by key, sorted."""

    ready = False

    def __init__(self, listing: Callable[[], Listing]) -> None:
        self._busy: dict[str, deque[Ask]] = {}  # keys with a write under way → the requests that wait for it
        self._traced_of: dict[str, Traced] = {}  # by key, what this life's trace last said of it
        self._listing = listing
        self._faults = Faults(listing)

    # --- what a store must do ---

    def _list(self, env: Env, ask: Ask) -> None:
        """Answer one page of a list."""
        raise NotImplementedError

    def _serve(self, env: Env, ask: Ask) -> None:
        """Answer a read, begin a write or refuse it: no other write is under way on its key."""
        raise NotImplementedError

    def _reads_beside_a_write(self, ask: Ask) -> bool:
        """Return whether a read need not wait for the write that is under way on its key."""
        return False

    # --- requests ---

    def closed(self, env: Env, peer: str) -> None:
        for waiting in self._busy.values():
            kept = [ask for ask in waiting if ask.caller != peer]
            waiting.clear()
            waiting.extend(kept)

    def message(self, env: Env, source: str, message: Command) -> None:
        if message.is_response:
            return
        if message.code == Request.DESCRIBE:
            body = json.dumps({"role": "objectstore", "objects": len(self._listing()), "ready": self.ready})
            env.send(source, message.reply(body=body.encode()))
            return
        if self._faults.message(env, source, message):
            return
        verb = _VERBS.get(message.code)  # type: ignore[call-overload]
        if verb is None:
            env.send(source, message.reply(Response.REQUEST_CODE_NOT_SUPPORTED, remark=f"code {message.code}"))
        elif not self.ready:
            env.send(source, message.reply(Response.SYSTEM_BUSY, remark="recovering"))
        else:
            self._apply_faults(env, self._ask(source, message, verb))

    def _ask(self, source: str, message: Command, verb: str) -> Ask:
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
        ask = Ask(
            caller=source,
            message=message,
            verb=verb,
            key=key,
            request=optional_text(fields, "request", code=code),
            queue=queue,
            expected=expected,
            content=json_of(message.body) if verb == "cas" else {},
        )
        if verb == "cas" and ask.version <= expected:
            raise Malformed(f"expected content whose version is above {expected}, got {ask.version}", code)
        return ask

    def _apply_faults(self, env: Env, ask: Ask) -> None:
        """Take a request, as the rules that hit it will have it."""
        treatment = self._faults.treat(env, ask.caller, ask.verb, ask.request)
        ask = replace(ask, answer_lost=treatment.answer_lost, refusal=treatment.refusal, listing=treatment.listing)
        if treatment.delay_ns or self._faults.holding:
            self._faults.hold(env, treatment.delay_ns, lambda env: self._take(env, ask))
        else:
            self._take(env, ask)

    def _take(self, env: Env, ask: Ask) -> None:
        if ask.refusal is not None:
            code, remark = REFUSALS[ask.refusal]
            self._respond(env, ask, ask.message.reply(code, remark=remark))
        elif ask.verb == "list":
            self._list(env, ask)
        elif ask.key not in self._busy or (ask.verb == "get" and self._reads_beside_a_write(ask)):
            self._serve(env, ask)
        elif len(self._busy[ask.key]) < MAX_WAITING_PER_KEY:
            self._busy[ask.key].append(ask)
        else:
            self._respond(env, ask, ask.message.reply(Response.SYSTEM_BUSY, remark="too many writes wait for this key"))

    def _go_on(self, env: Env, key: str) -> None:
        """The write on this key is over: serve those that wait for it, up to the next write."""
        waiting = self._busy.pop(key)
        while waiting and key not in self._busy:
            self._serve(env, waiting.popleft())
        if waiting:
            self._busy[key].extend(waiting)

    def _send_page(self, env: Env, ask: Ask, page: list[list[object]], *, more: bool) -> None:
        env.trace(events.StoreList(**about_ask(ask), outcome="listed"))
        fields = {"more": "true" if more else "false"}
        self._respond(env, ask, ask.message.reply(fields=fields, body=json.dumps(page).encode()))

    # --- answers ---

    def _end(
        self,
        env: Env,
        ask: Ask,
        code: Response,
        found: Stored | None = None,
        body: bytes = b"",
        *,
        remark: str = "",
        **row: Any,
    ) -> None:
        """Trace and answer a request that changes nothing."""
        env.trace(EVENTS[ask.verb](**about_ask(ask), **self._in_short(ask, row)))
        self._respond(env, ask, ask.message.reply(code, fields=about(found), body=body, remark=remark))

    def _in_short(self, ask: Ask, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a row of the trace with the changes of a content instead of all of it, where that is shorter."""
        before = self._traced_of.get(ask.key)
        changes = before.changes(ask.content) if before is not None and "content" in row else None
        if changes is None:
            return row
        return {name: value for name, value in row.items() if name != "content"} | {"changes": changes}

    def _respond(self, env: Env, ask: Ask, answer: Command) -> None:
        if not ask.answer_lost:
            env.send(ask.caller, answer)


def about_ask(ask: Ask) -> dict[str, Any]:
    return {"queue": ask.queue, "caller": ask.caller, "key": ask.key, "request": ask.request}


def cas_row(ask: Ask) -> dict[str, Any]:
    """Columns and value of a compare-and-set's trace: the store knows of manifests only what their JSON says."""
    columns = {"epoch": "epoch", "offset": "end", "position": "position"}
    row: dict[str, Any] = {column: number(ask.content, name) for column, name in columns.items()}
    return row | {"expected": ask.expected, "version": ask.version, "content": ask.content}


def about(found: Stored | None) -> dict[str, str]:
    """Return what stands under the key, for answers."""
    if found is None:
        return {"version": "-1"}
    return {"version": str(found.version), "hash": str(found.hash), "size": str(found.size)}


def number(content: Mapping[str, Any], name: str) -> int:
    value = content.get(name, -1)
    return value if type(value) is int else -1


def json_of(content: bytes) -> dict[str, Any]:
    try:
        return read_object(content)
    except Malformed:
        return {}


def frame(head: Mapping[str, object], body: bytes) -> tuple[bytes, int]:
    """Return a file's bytes, and where the object's own begin in them."""
    encoded = to_json(head)
    content = len(encoded).to_bytes(4, "big") + encoded + body
    return crc32(content).to_bytes(4, "big") + content, _FRAME.size + len(encoded)


def unframe(data: bytes) -> tuple[dict[str, Any], int, int] | None:
    """Return the head of a file, where its object begins, and the object's size; None when it is torn."""
    if len(data) < _FRAME.size:
        return None
    checksum, length = _FRAME.unpack_from(data)
    at = _FRAME.size + length
    if crc32(memoryview(data)[4:]) != checksum or at > len(data):
        return None
    return json.loads(data[_FRAME.size : at]), at, len(data) - at
