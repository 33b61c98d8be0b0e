"""RocketMQ's commands, frames and codes, as the reference system has them, for drivers of systems that speak them."""

from __future__ import annotations

from reference.wire.codec import MAX_FRAME_BYTES, RemotingCodec
from reference.wire.codes import Request, Response
from reference.wire.command import NO_FIELDS, Command

__all__ = ["MAX_FRAME_BYTES", "NO_FIELDS", "Command", "RemotingCodec", "Request", "Response"]
