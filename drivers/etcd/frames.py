"""What clients ask of etcd over HTTP, for faults on requests of a kind: one request after the other on a connection."""

from __future__ import annotations

import json

from chaos.frames import REFUSAL, Frame, Framing

_BLANK = b"\r\n\r\n"
_MOST_HEAD_BYTES = 65_536
#: By method of etcd's API: what a request is called.
_KINDS = {
    "kv/range": "read",
    "kv/put": "write",
    "kv/txn": "txn",
    "kv/deleterange": "delete",
    "lock/lock": "lock",
    "lock/unlock": "unlock",
    "lease/grant": "grant",
    "lease/revoke": "revoke",
    "lease/keepalive": "keepalive",
    "lease/timetolive": "timetolive",
}
#: gRPC's RESOURCE_EXHAUSTED is what etcd says with "too many requests": before it proposes anything.
_BODY = json.dumps({"error": REFUSAL, "code": 8, "message": REFUSAL}).encode()
_REFUSAL = (
    b"HTTP/1.0 429 Too Many Requests\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


def frames(port: str) -> HttpFrames | None:
    """Return who reads one connection; None at the port for other members."""
    return HttpFrames() if port in ("", "client") else None


FRAMING = Framing(reader=f"{__name__}:{frames.__name__}", kinds=tuple(_KINDS.values()))


class HttpFrames:
    """Implements :class:`chaos.frames.Frames`. A body has the length that its head says; an answer without one ends
    with the connection."""

    def requests(self, buffer: bytearray) -> list[Frame]:
        found = []
        while (whole := _whole(buffer, 0)) is not None:
            data = bytes(buffer[:whole])
            del buffer[:whole]
            found.append(Frame(data=data, kind=_kind(data)))
        return found

    def answers(self, buffer: bytearray, *, ended: bool) -> list[Frame]:
        found = []
        while buffer and (whole := _whole(buffer, len(buffer) if ended else None)) is not None:
            found.append(Frame(data=bytes(buffer[:whole])))
            del buffer[:whole]
        return found

    def refusal(self, request: Frame) -> bytes:
        return _REFUSAL


def _kind(request: bytes) -> str:
    words = request.split(b" ", 2)
    path = words[1].decode("latin-1") if len(words) > 1 else ""
    return _KINDS.get(path.removeprefix("/v3/"), "")


def _whole(buffer: bytearray, unsaid: int | None) -> int | None:
    """Return the size of the request or answer at the front; None while it is not whole. ``unsaid``: what ends one
    whose head says no length: this size, 0 for a head alone, None for bytes that are still to come. Raises
    ``ValueError``."""
    end = buffer.find(_BLANK)
    if end < 0:
        if len(buffer) > _MOST_HEAD_BYTES:
            raise ValueError("the head of a message never ends")
        return unsaid or None
    begin = end + len(_BLANK)
    first, *lines = bytes(buffer[:end]).split(b"\r\n")
    said = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    if b"HTTP/1." not in first or b"transfer-encoding" in said:
        raise ValueError("this is no HTTP/1, or in pieces")
    if b"content-length" in said:
        whole = begin + int(said[b"content-length"])
        return whole if begin <= whole <= len(buffer) else None
    return unsaid if unsaid is None else max(begin, unsaid)
