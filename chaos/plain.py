"""A plain message and its frames, for systems that have no protocol of their own: toys, examples, first versions.

Imports the standard library and :mod:`chaos.node` alone, so that nodes on bare hosts may use it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from zlib import crc32

#: The most bytes of a frame, without the words that it begins with.
MAX_FRAME_BYTES = 16 * 1024 * 1024

NO_FIELDS: Mapping[str, str] = {}

_START = struct.Struct(">III")
_WORD = (1 << 32) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainMessage:
    """Implements :class:`chaos.node.Message`. ``error``: of an answer, why the request failed; "" where it did not."""

    kind: int = 0
    number: int = 0
    fields: Mapping[str, str] = field(default_factory=lambda: NO_FIELDS)
    body: bytes = b""
    error: str = ""
    is_response: bool = False
    is_oneway: bool = False

    @property
    def size(self) -> int:
        return len(self.body)

    def numbered(self, number: int, *, oneway: bool = False) -> PlainMessage:
        """Return the same message under this number; ``oneway``: as one that wants no answer."""
        return replace(self, number=number, is_oneway=self.is_oneway or oneway)

    def reply(self, body: bytes = b"", *, fields: Mapping[str, str] = NO_FIELDS, error: str = "") -> PlainMessage:
        """Answer this request."""
        return PlainMessage(kind=self.kind, number=self.number, fields=fields, body=body, error=error, is_response=True)

    def refused(self, error: Exception) -> PlainMessage:
        """Answer that this request failed."""
        return self.reply(error=str(error))


class PlainCodec:
    """Implements :class:`chaos.node.Codec`. A frame is ``size | its complement | CRC-32 | header | newline | body``,
    three words of four bytes, big-endian, of what follows them; the header is one line of JSON. So a bit that flips on
    the way is noticed, and nobody waits for the rest of a frame whose size is wrong."""

    def encode(self, message: PlainMessage) -> bytes:
        """Make one frame. Raises ``ValueError`` if it would be too large."""
        flags = message.is_response | message.is_oneway << 1
        header = [message.kind, message.number, flags, message.error, dict(message.fields)]
        rest = json.dumps(header).encode() + b"\n" + message.body
        if len(rest) > MAX_FRAME_BYTES:
            raise ValueError(f"a message makes {len(rest)} bytes; the limit is {MAX_FRAME_BYTES}")
        return _START.pack(len(rest), _WORD - len(rest), crc32(rest)) + rest

    def decode(self, buffer: bytearray) -> list[PlainMessage]:
        """Take all whole frames off the front of ``buffer``. Raises ``ValueError`` for what can't become one."""
        messages = []
        while len(buffer) >= _START.size:
            size, complement, check = _START.unpack_from(buffer)
            if size > MAX_FRAME_BYTES or size + complement != _WORD:
                raise ValueError(f"no frame begins with {bytes(buffer[:8])!r}")
            end = _START.size + size
            if len(buffer) < end:
                break
            rest = bytes(buffer[_START.size : end])
            if crc32(rest) != check:
                raise ValueError("a frame does not match its checksum")
            header, _, body = rest.partition(b"\n")
            messages.append(_message(header, body))
            del buffer[:end]
        return messages


def _message(header: bytes, body: bytes) -> PlainMessage:
    """Return the message with this header. Raises ``ValueError`` for another header than :class:`PlainCodec` writes."""
    match json.loads(header):
        case [int(kind), int(number), int(flags), str(error), dict(fields)]:
            return PlainMessage(
                kind=kind,
                number=number,
                fields=fields,
                body=body,
                error=error,
                is_response=bool(flags & 1),
                is_oneway=bool(flags & 2),
            )
    raise ValueError(f"a frame's header is none of ours: {header[:80]!r}")
