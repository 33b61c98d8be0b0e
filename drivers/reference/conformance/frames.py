"""Questions that only bytes can ask, and those about what a client from outside is answered."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from chaos.driver import MakeFrame
from chaos.ops import Failed
from drivers.reference.conformance.case import CLOSED, Case, asked
from reference.wire.codec import MAX_FRAME_BYTES
from reference.wire.codec import RemotingCodec as Codec
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import BROKER, CONTROLLER, NAMESERVER

_BINARY, _START, _WORD, _KEY = struct.Struct(">hBhiii"), struct.Struct(">II"), struct.Struct(">I"), struct.Struct(">H")

#: The code of no request.
_UNKNOWN = 9999


def of_frames(topic: str) -> dict[str, Case]:
    """Return the cases that only bytes can ask, and those about what a client from outside is answered."""
    info, taken = Request.GET_BROKER_RUNTIME_INFO, Response.SUCCESS
    kinds: dict[str, MakeFrame] = {"in pieces": in_pieces, "with a binary header": binary, "without a checksum": plain}
    good = {
        f"a request {kind}": asked(
            Request.GET_MAX_OFFSET, taken, role=BROKER, frame=frame, topic=topic, anyReplica="true"
        )
        for kind, frame in kinds.items()
    }
    bad: dict[str, MakeFrame] = {
        "fields that are a list": _with(extFields=[1]),
        "a field that is a number": _with(extFields={"a": 1}),
        "a remark that is a number": _with(remark=1),
        "a number of 33 bits": _with(flag=1 << 33),
        "half a character": _with(extFields={"topic": "\ud800"}),
        "the bytes of half a character": _half_a_character,
        "a wrong checksum": _damaged,
        "too great a length": _too_long,
    }
    return {
        **good,
        **{f"a frame with {what}": asked(info, CLOSED, role=BROKER, frame=frame) for what, frame in bad.items()},
        "a frame of the greatest length": asked(info, taken, role=BROKER, frame=longest),
        "the reason for a refusal": asked(
            _UNKNOWN,
            f"request type {_UNKNOWN} not supported",
            lambda answer: answer.remark.strip(),
            role=BROKER,
            frame=in_pieces,
        ),
        "a route from outside": asked(
            Request.GET_ROUTEINFO_BY_TOPIC,
            "addresses",
            _addresses(_of_routes),
            frame=in_pieces,
            topic=topic,
        ),
        "the cluster from outside": asked(
            Request.GET_BROKER_CLUSTER_INFO, "addresses", _addresses(_of_groups), role=NAMESERVER, frame=binary
        ),
        "the controllers from outside": asked(
            Request.CONTROLLER_GET_METADATA_INFO, "addresses", _addresses(_of_peers), role=CONTROLLER, frame=plain
        ),
    }


def _addresses(find: Callable[[Command], Sequence[str]]) -> Callable[[Command], str]:
    """Return a function that says whether an answer names nodes by their addresses. It raises :class:`Failed` where
    there is nobody to be named."""

    def how_named(answer: Command) -> str:
        found = find(answer) if answer.code == Response.SUCCESS else []
        if not found:
            raise Failed(f"nobody is named: code {answer.code}: {answer.remark}")
        return "addresses" if all(":" in one for one in found) else f"names {sorted(found)}"[:200]

    return how_named


def _of_routes(answer: Command) -> list[str]:
    return [name for group in json.loads(answer.body)["brokerDatas"] for name in group["brokerAddrs"].values()]


def _of_groups(answer: Command) -> list[str]:
    groups = json.loads(answer.body)["brokerAddrTable"].values()
    return [name for group in groups for name in group["brokerAddrs"].values()]


def _of_peers(answer: Command) -> list[str]:
    leader = answer.fields.get("controllerLeaderAddress")
    peers = [peer.partition(":")[2] for peer in answer.fields["peers"].split(";")]
    return [*peers, *([leader] if leader else [])]


def in_pieces(request: Command) -> Sequence[bytes]:
    """Cut in the middle of both its lengths, of its checksum, and before its last byte."""
    frame = Codec().encode(request)
    return frame[:2], frame[2:6], frame[6:30], frame[30:-1], frame[-1:]


def binary(request: Command) -> Sequence[bytes]:
    """Return the request as a frame whose header has RocketMQ's own form."""
    fields = b"".join(
        _KEY.pack(len(key.encode())) + key.encode() + _WORD.pack(len(value.encode())) + value.encode()
        for key, value in request.fields.items()
    )
    header = _BINARY.pack(request.code, 0, 400, request.opaque, request.flags, 0) + _WORD.pack(len(fields)) + fields
    return (_START.pack(4 + len(header) + len(request.body), 1 << 24 | len(header)) + header + request.body,)


def plain(request: Command) -> Sequence[bytes]:
    """Return the frame without a checksum, as clients of other make send it."""
    return (_json({"code": request.code, "opaque": request.opaque, "extFields": dict(request.fields)}),)


def longest(request: Command) -> Sequence[bytes]:
    """Return a frame as large as one may be."""
    (frame,) = plain(request)
    _, header = _START.unpack_from(frame)
    return (
        _START.pack(MAX_FRAME_BYTES - _WORD.size, header) + frame[_START.size :],
        bytes(MAX_FRAME_BYTES - len(frame)),
    )


def _with(**members: object) -> MakeFrame:
    return lambda request: (_json({"code": request.code, "opaque": request.opaque, **members}),)


def _half_a_character(request: Command) -> Sequence[bytes]:
    header = {"code": request.code, "opaque": request.opaque, "extFields": {"topic": "\ud800"}}
    return (_framed(json.dumps(header, ensure_ascii=False).encode("utf-8", "surrogatepass")),)


def _json(header: Mapping[str, object]) -> bytes:
    return _framed(json.dumps(header).encode())


def _framed(text: bytes) -> bytes:
    return _START.pack(4 + len(text), len(text)) + text


def _damaged(request: Command) -> Sequence[bytes]:
    frame = bytearray(Codec().encode(replace(request, body=b"body")))
    frame[-1] ^= 1
    return (bytes(frame),)


def _too_long(request: Command) -> Sequence[bytes]:
    return (_START.pack(MAX_FRAME_BYTES - 3, 2) + b"{}",)
