"""RocketMQ remoting frames: bytes on a connection, to and from :class:`reference.wire.command.Command`.

A frame is ``length | header word | header | body``, both words four bytes, big-endian. ``length`` counts what follows
it; the header word's top byte says how the header is written (0 JSON, 1 RocketMQ's binary form), the lower three its
size. We write JSON and read both. Source: Apache RocketMQ, ``RemotingCommand`` and ``RocketMQSerializable`` (5.x).

RocketMQ's frames carry no checksum, so a bit that flips on the way changes a message, and nobody notices: a wrong body
is stored and acknowledged, a wrong offset answered. Ours begin their header with a member of our own, ``check``, that
peers of other make pass over: sixteen hexadecimal digits, the CRC-32 of both words, so that a wrong length is noticed
at once, and that of all that follows. A frame without it is taken as it is.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

from reference.wire.codes import END_OF_OUR_OWN, FIRST_OF_OUR_OWN, Request
from reference.wire.command import NO_FIELDS, Command
from reference.wire.fields import to_json

#: The largest frame, with its length word; a peer that announces more is cut off.
MAX_FRAME_BYTES = 16 * 1024 * 1024
#: The largest header: what an answer says of a request's header must fit into a frame, however it is written.
MAX_HEADER_BYTES = 1024 * 1024

JSON_HEADER = 0
BINARY_HEADER = 1
#: What we say we are. The version is RocketMQ's ordinal of 5.5.0: from 402 on, peers send us standard JSON.
LANGUAGE = "PYTHON"
VERSION = 513

#: Header fields of answers that hold a node's name.
ADDRESS_FIELDS = frozenset({"masterAddress", "masterAddr", "controllerLeaderAddress"})
#: Of a controller's metadata: ``ID:NAME`` of each controller, parted by ``;``.
PEERS = "peers"
#: Requests whose answers have brokers' names in their bodies: as values of an object ``brokerAddrs``, and under
#: :data:`ADDRESSES`.
ROUTES = frozenset(
    {
        Request.GET_ROUTEINFO_BY_TOPIC,
        Request.GET_BROKER_CLUSTER_INFO,
        Request.GET_BROKER_HA_STATUS,
        Request.CONTROLLER_ELECT_MASTER,
        Request.CONTROLLER_GET_SYNC_STATE_DATA,
    }
)
ADDRESSES = frozenset({"addr", "brokerAddress", "masterAddr", "masterAddress"})

#: Given the name of a node, returns the address at which a client reaches it.
Reached = Callable[[str], str]

_WORD = struct.Struct(">I")
_START = struct.Struct(">II")
_BINARY = struct.Struct(">hBhiii")
_KEY = struct.Struct(">H")
#: How a header with a check begins; the digits, and what ends them, follow.
_CHECK = b'{"check":"'
_CHECK_DIGITS = 16
_CHECKED = len(_CHECK) + _CHECK_DIGITS + len(b'",')
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
#: ``json.dumps`` would make a new one for each frame.
_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
#: So begins every object that is written without blanks, in UTF-8 alone: nobody has to find out the encoding.
_OBJECT = b'{"'
#: Reads the JSON at the beginning of a text: (what it is, where it ends).
_DECODE = json.JSONDecoder().raw_decode
_INT32 = range(-(2**31), 2**31)


class RemotingCodec:
    """Implements :class:`chaos.node.Codec`; holds no state, so one object serves all connections."""

    def encode(self, message: Command) -> bytes:
        """Make one frame. Raises ``ValueError`` if it would be larger than 16 MiB."""
        remark = f',"remark":{_ENCODER.encode(message.remark)}' if message.remark else ""
        fields = f',"extFields":{_ENCODER.encode(dict(message.fields))}' if message.fields else ""
        rest = (
            f'"code":{message.code:d},"language":"{LANGUAGE}","version":{VERSION},"opaque":{message.opaque:d},'
            f'"flag":{message.flags:d},"serializeTypeCurrentRPC":"JSON"{remark}{fields}}}'
        ).encode()
        size = _CHECKED + len(rest)
        length = 4 + size + len(message.body)
        if length + 4 > MAX_FRAME_BYTES:
            raise ValueError(f"message {message.code} makes a frame of {length + 4} bytes; the limit is 16 MiB")
        start = _START.pack(length, JSON_HEADER << 24 | size)
        digits = b'%08x%08x",' % (crc32(start), crc32(message.body, crc32(rest)))
        return b"".join((start, _CHECK, digits, rest, message.body))

    def decode(self, buffer: bytearray) -> list[Command]:
        """Take all whole frames off the front of ``buffer``; what remains waits for more bytes.

        Raises ``ValueError`` as soon as the front can't become a frame; then the connection is of no more use.
        """
        messages = []
        begin = 0
        while len(buffer) - begin >= 4:
            (length,) = _WORD.unpack_from(buffer, begin)
            if not 4 <= length <= MAX_FRAME_BYTES - 4:
                raise ValueError(f"a frame announces {length} bytes; 4 to {MAX_FRAME_BYTES - 4} are possible")
            if len(buffer) - begin < 8:
                break
            (word,) = _WORD.unpack_from(buffer, begin + 4)
            kind, size = word >> 24, word & 0xFFFFFF
            if kind not in (JSON_HEADER, BINARY_HEADER) or size > min(length - 4, MAX_HEADER_BYTES):
                raise ValueError(f"a frame of {length} bytes announces a header of type {kind} and {size} bytes")
            start, end = begin + 8, begin + 4 + length
            checked = buffer[start : start + len(_CHECK)] == _CHECK and len(buffer) - start >= _CHECKED
            if checked and _sum(buffer, start) != crc32(buffer[begin:start]):
                raise ValueError("a frame's length or its header's size is damaged")
            if len(buffer) < end:
                break
            body_begin = begin + 8 + size
            header = bytes(buffer[start:body_begin])
            damaged = checked and _sum(buffer, start + 8) != crc32(buffer[start + _CHECKED : end])
            if damaged and self.must_match(header):
                raise ValueError("a frame does not match its checksum")
            read = _read_json if kind == JSON_HEADER else _read_binary
            messages.append(read(header, bytes(buffer[body_begin:end])))
            begin = end
        del buffer[:begin]
        return messages

    def must_match(self, header: bytes) -> bool:
        """Return whether a frame with this header is refused when its bytes don't match its checksum."""
        return True

    def is_internal(self, message: Command) -> bool:
        """Return whether only our own nodes and the harness say this: replication, Raft, the object store."""
        return FIRST_OF_OUR_OWN <= message.code < END_OF_OUR_OWN and not message.is_response

    def readdress(self, request: int, answer: Command, reached: Reached) -> Command:
        """See :class:`chaos.addresses.CanReaddress`."""
        fields, body = dict(answer.fields), answer.body
        for key in ADDRESS_FIELDS & fields.keys():
            fields[key] = reached(fields[key]) if fields[key] else ""
        if PEERS in fields:
            parts = (peer.partition(":") for peer in fields[PEERS].split(";"))
            fields[PEERS] = ";".join(  # behind the colon of RocketMQ's own ``n0-HOST:PORT`` stands no name
                f"{number}{colon}{name if name.isdigit() or not name else reached(name)}"
                for number, colon, name in parts
            )
        if request in ROUTES and body:
            body = to_json(_routes(self.read_json(body), reached))
        unchanged = fields == answer.fields and body is answer.body
        return answer if unchanged else replace(answer, fields=fields, body=body)

    def read_json(self, body: bytes) -> object:
        """Return what a body says. Raises ``ValueError``."""
        found: object = json.loads(body)
        return found


def _sum(buffer: bytearray, start: int) -> int:
    """One of the checksums of the header that begins here, or 8 after its beginning. Raises ``ValueError``."""
    return int(buffer[start + len(_CHECK) : start + len(_CHECK) + 8], 16)


def _routes(node: object, reached: Reached) -> object:
    """Return the same JSON value, but for the brokers that it names."""
    if isinstance(node, list):
        return [_routes(child, reached) for child in node]
    if not isinstance(node, dict):
        return node
    return {key: _reached(key, value, reached) for key, value in node.items()}


def _reached(key: str, value: object, reached: Reached) -> object:
    if key == "brokerAddrs" and isinstance(value, dict):
        return {number: reached(str(name)) for number, name in value.items()}
    if key in ADDRESSES and isinstance(value, str):
        return reached(value) if value else ""
    return _routes(value, reached)


def _read_json(data: bytes, body: bytes) -> Command:
    try:
        header = _loads(data)
        if b"\\u" in data and _HALF_CHARACTER.search(data):
            json.dumps(header, ensure_ascii=False).encode()  # halves of characters can't be written again
    except (ValueError, RecursionError) as error:
        raise ValueError(f"a frame's header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise ValueError(f"a frame's header is no JSON object: {data[:80]!r}")
    fields = header.get("extFields") or NO_FIELDS
    remark = header.get("remark") or ""
    if {type(remark), *map(type, _values(fields))} != {str}:
        raise ValueError(f"a frame's remark and extFields must be strings: {data[:200]!r}")
    return Command(
        code=_number(header, "code"),
        flags=_number(header, "flag"),
        opaque=_number(header, "opaque"),
        fields=fields,
        body=body,
        remark=remark,
    )


def _loads(data: bytes) -> Any:
    """Do the same as ``json.loads`` of UTF-8, which takes twice as long, and which takes the bytes of half a character.
    Raises ``ValueError`` and ``RecursionError``."""
    text = data.decode()
    if not data.startswith(_OBJECT):
        return json.loads(text)
    value, end = _DECODE(text)
    return value if end == len(text) else json.loads(text)


def _values(fields: object) -> list[object]:
    if fields is not NO_FIELDS and not isinstance(fields, dict):
        raise ValueError(f"a frame's extFields are no JSON object: {str(fields)[:80]}")
    return list(fields.values()) if isinstance(fields, dict) else []


def _number(header: dict[str, object], key: str) -> int:
    value = header.get(key, 0)
    if type(value) is not int or value not in _INT32:
        raise ValueError(f"a frame's {key} must be a 32-bit number, not {str(value)[:80]}")
    return value


def _read_binary(data: bytes, body: bytes) -> Command:
    try:
        code, _language, _version, opaque, flags, remark_size = _BINARY.unpack_from(data)
        remark, at = _text(data, _BINARY.size, remark_size)
        (fields_size,) = _WORD.unpack_from(data, at)
        at += 4
        if at + fields_size != len(data):
            raise ValueError(f"its fields take {fields_size} bytes, but {len(data) - at} follow")
        fields = {}
        while at < len(data):
            (key_size,) = _KEY.unpack_from(data, at)
            key, at = _text(data, at + 2, key_size)
            (value_size,) = _WORD.unpack_from(data, at)
            fields[key], at = _text(data, at + 4, value_size)
    except (struct.error, ValueError) as error:
        raise ValueError(f"a frame's binary header can't be read: {error}") from error
    return Command(code=code, flags=flags, opaque=opaque, fields=fields or NO_FIELDS, body=body, remark=remark)


def _text(data: bytes, begin: int, size: int) -> tuple[str, int]:
    end = begin + size
    if size < 0 or end > len(data):
        raise ValueError(f"a text of {size} bytes does not fit")
    return data[begin:end].decode(), end
