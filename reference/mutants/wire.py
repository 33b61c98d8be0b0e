"""A planted bug of the frames."""

from __future__ import annotations

from reference.mutants._planted import CODEC, WIRE, Planted
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request

_SENDS = tuple(b'"code":%d,' % code for code in (Request.SEND_MESSAGE, Request.SEND_MESSAGE_V2))


class SendsUnchecked(RemotingCodec):
    """What producers send is stored as it comes, flipped bits and all."""

    def must_match(self, header: bytes) -> bool:
        return not any(code in header for code in _SENDS)


MUTANTS = (
    Planted(
        name="sends-unchecked",
        law="durability",
        stands_for="RocketMQ's bodyCRC, which the broker computes of what has arrived: nobody checks the way to it",
        parts={WIRE: {CODEC: SendsUnchecked}},
        scenario="link_faults",
    ),
)
