"""RocketMQ's frames and codes: those that the reference system has, for drivers of other systems that speak them."""

from __future__ import annotations

from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request, Response

__all__ = ["RemotingCodec", "Request", "Response"]
