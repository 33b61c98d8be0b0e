"""The operations of clients: what was asked, and what is known of the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class OpType(StrEnum):
    """Jepsen's four types. ``info`` means that the outcome is unknown: it may have happened, may yet happen, or never
    will."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    INFO = "info"


#: The ``f`` of rows that follow the end of an operation: one for each message that it was given.
DELIVERED = "delivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One message as a client read it from ``queue`` at ``offset``. ``message`` is its id, or -1 if it has none of
    ours; ``hash`` is :func:`body_hash` of the body that arrived. ``queue`` is its queue's index, -1 for that of the
    operation."""

    offset: int
    message: int
    hash: int
    queue: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an operation learned, beyond its type. -1 and "" mean "not reported".

    ``node``, ``incarnation`` and ``epoch``: who answered, in which life, and of which master epoch it believed to be.
    ``source``: ``local`` or ``tier``, where the data came from. ``minimum``/``maximum``/``following`` are queue offsets
    (``maximum`` is the next to be written, ``following`` the next to be read). ``size``: bytes of all ``messages``
    together, as the system counts them against a limit. ``value``: what else the completion's row shall hold, as JSON
    (the state of an object that was read).
    """

    node: str = ""
    incarnation: int = -1
    epoch: int = -1
    queue: int = -1
    offset: int = -1
    position: int = -1
    source: str = ""
    minimum: int = -1
    maximum: int = -1
    following: int = -1
    size: int = -1
    messages: tuple[Delivered, ...] = ()
    value: Mapping[str, object] = field(default_factory=dict)


class Failed(Exception):
    """The operation surely did not happen and never will (recorded as ``fail``)."""

    def __init__(self, reason: str, answer: Answer | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.answer = answer or Answer()


class Unknown(Exception):
    """It is unknown whether the operation happened (recorded as ``info``): a timeout, a lost connection.

    A send that the system takes for a repetition has the offset at which it says that the message is stored: it is held
    to that, and nothing is concluded from when the message came there."""

    def __init__(self, reason: str, answer: Answer | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.answer = answer or Answer()


def as_repetition(end: Failed | Unknown) -> Failed | Unknown:
    """Return the end of an attempt that stores nothing besides what an attempt before it may have stored: its row has
    ``again``, by which laws know it."""
    return type(end)(end.reason, replace(end.answer, value={**end.answer.value, "again": 1}))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRef:
    """A queue of a topic. ``index`` is its number in the history, dense from 0 over the whole run; the name stands
    in ``run.json``."""

    index: int
    topic: str
    queue_id: int
    group: str = field(default="")


SEQUENCE_BITS = 40


def message_id(queue: int, sequence: int) -> int:
    """Identify a message in a history: ``queue << 40 | sequence``, with ``sequence`` dense from 0 in its queue."""
    return queue << SEQUENCE_BITS | sequence
