"""RocketMQ's commands, frames and codes, as the reference system has them, for drivers of systems that speak them."""

from __future__ import annotations

from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request, Response
from reference.wire.command import NO_FIELDS, Command

__all__ = ["NO_FIELDS", "Command", "RemotingCodec", "Request", "Response"]
