r"""A message's properties: pairs of a name and a value, as RocketMQ writes them into a record.

A pair is ``name \x01 value \x02``. The names here are RocketMQ's (``MessageConst``).
"""

from __future__ import annotations

from collections.abc import Mapping

KEY = "UNIQ_KEY"
DELAY_LEVEL = "DELAY"
DELAY_S, DELAY_MS, DELIVER_MS = "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"
#: When a deferred message is due, in ms since 1970.
DUE_MS = "TIMER_OUT_MS"
HALF, PRODUCER_GROUP = "TRAN_MSG", "PGROUP"
#: Where a message that now stands elsewhere belongs.
REAL_TOPIC, REAL_QUEUE = "REAL_TOPIC", "REAL_QID"
#: Of a message that a consumer sent back: its topic, and its id, at the first time.
HANDLE = "__POP"  # of our own: under which a message was given that waits to be acknowledged
RETRY_TOPIC, ORIGIN_ID = "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"


def read(data: bytes) -> dict[str, str]:
    """Return the properties by name. What is no pair is left out; of a name that comes twice, the last value counts."""
    pairs = (part.partition(b"\x01") for part in data.split(b"\x02"))
    return {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, mark, value in pairs
        if mark
    }


def write(values: Mapping[str, str]) -> bytes:
    """Return properties as :func:`read` takes them."""
    return "".join(f"{name}\x01{value}\x02" for name, value in values.items()).encode("utf-8", "surrogateescape")
