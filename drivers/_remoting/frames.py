"""What clients ask in RocketMQ's frames, for faults on requests of a kind."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from chaos.frames import REFUSAL, CodecFrames, Framing
from chaos.node import Malformed
from drivers._remoting.json_text import loads
from drivers._remoting.wire import MAX_FRAME_BYTES, Command, RemotingCodec, Request, Response

#: The requests that are one operation of a client of queues are called as that is; what only the harness asks has no
#: name.
_KINDS: Mapping[int, str] = {
    Request.SEND_MESSAGE: "send",
    Request.SEND_MESSAGE_V2: "send",
    Request.PULL_MESSAGE: "pull",
    Request.LITE_PULL_MESSAGE: "pull",
    Request.UPDATE_CONSUMER_OFFSET: "commit",
    Request.QUERY_CONSUMER_OFFSET: "committed",
    Request.GET_MAX_OFFSET: "bounds",
    Request.GET_MIN_OFFSET: "bounds",
    Request.SEARCH_OFFSET_BY_TIMESTAMP: "search",
    Request.GET_ROUTEINFO_BY_TOPIC: "route",
    Request.HEART_BEAT: "heartbeat",
    Request.UPDATE_AND_CREATE_TOPIC: "topic",
    Request.CONTROLLER_GET_METADATA_INFO: "controllers",
    Request.METADATA_PUT: "put",
    Request.METADATA_GET: "get",
    Request.METADATA_WATCH: "watch",
}
_WORD = struct.Struct(">I")
#: "Busy" is what a broker says that has not begun with a request.
_ERROR = Malformed(REFUSAL, Response.SYSTEM_BUSY)


class _Codec(RemotingCodec):
    """One that reads routes of RocketMQ's own, too."""

    def read_json(self, body: bytes) -> object:
        return loads(body)


def frames(port: str) -> CodecFrames:
    """Return who reads one connection."""
    return CodecFrames(_Codec(), kind_of=_kind_of, size_of=_size_of, error=_ERROR)


#: Of all systems that speak these frames.
FRAMING = Framing(reader=f"{__name__}:{frames.__name__}", kinds=tuple(dict.fromkeys(_KINDS.values())))


def _kind_of(message: Command) -> str:
    return _KINDS.get(message.code, "")


def _size_of(buffer: bytearray) -> int:
    """Return the size of the frame at the front, 0 while it is unknown. Raises ``ValueError`` for what is none, such as
    the gRPC that clients of proxies speak."""
    if len(buffer) < 4:
        return 0
    size = 4 + int(_WORD.unpack_from(buffer)[0])
    if size > MAX_FRAME_BYTES:
        raise ValueError("this is not RocketMQ's remoting protocol")
    return size
