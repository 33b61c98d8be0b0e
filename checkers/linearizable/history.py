"""Histories of concurrent operations, as the linearizability checkers take them, and what these answer.

Whatever file or run a history comes from, it is brought into this form first: operations that surely did not happen are
gone, values are canonical JSON texts, and time is the order of the events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

#: The value nil, as a JSON text.
NIL = "null"

#: An argument of an operation: a value as canonical JSON text (sorted keys, no spaces), a whole number where the model
#: calculates with it (counter, token, epoch, flag, process), None where it is unknown.
Argument = str | int | None


class Function(IntEnum):
    """What an operation does; arguments per model in ``docs/linearizability.md``. The codes are those of the packed
    form (``checkers/linearizable/jvm/stormproof/model/Function.java``)."""

    READ = 0  # [value]; a set: the elements, sorted; replica-info: [epoch, members...]
    WRITE = 1  # [value]
    CAS = 2  # [expected, new]; replica-info: [expected epoch, new epoch, members...]
    CAS_FAILED = 3  # [expected, new]: an observation, the state was not the expected one
    APPEND = 4  # [value]
    DELETE = 5  # []
    ACQUIRE = 6  # mutex: []; fenced-lock: [process, token]
    RELEASE = 7  # mutex: []; fenced-lock: [process, token]
    ADD = 8  # set: [element, changed]; counter: [amount]
    REMOVE = 9  # [element, changed]
    CONTAINS = 10  # [element, 0 or 1]
    ENQUEUE = 11  # [value]
    DEQUEUE = 12  # [value], nil: the queue was empty; unordered-queue: also [value, number of the drain that took it]
    TXN = 13  # triples [READ or WRITE, key, value]
    DRAINED = 14  # [number of the drain]: it found the queue empty and takes nothing any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One call. ``call`` and ``ret`` are positions of events in the history, all distinct; ``ret`` is None when the
    operation crashed: it may have happened at any time after its call, or never. ``key`` names the object among
    several that are independent, None where there is one. ``rows`` are the line (file) or index (run) of the
    invocation and of the completion, -1 for none."""

    process: str
    f: Function
    arguments: tuple[Argument, ...]
    call: int
    ret: int | None
    key: str | None = None
    rows: tuple[int, int] = (-1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a file was read. ``guessed``: the format was recognized by its content. ``conventions``: in a sentence each,
    what a call was taken to mean where the format differs from Knossos's conventions, or where values were taken for
    keys. ``expected``: what an event looks like in this format."""

    format: str
    guessed: bool
    conventions: tuple[str, ...] = ()
    expected: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Operations in the order of their calls; an operation's *number* is its place here. ``init`` holds the arguments
    that describe the first state of every object: () is nil (register, kv), free (locks), empty (set, queue), 0
    (counter), epoch 0 without members (replica-info). ``left_out`` counts what was recorded and is not among
    the operations: calls that failed or restrict nothing, and events that are no client's. ``reading`` says how the
    file was read, None for what comes from no file."""

    id: str | int
    model: str
    operations: Sequence[Operation]
    init: tuple[Argument, ...] = ()
    left_out: int = 0
    reading: Reading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """An object about which the budget allowed no verdict: how many of its completed operations could be placed."""

    key: str | None
    reason: str
    placed: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadEnd:
    """One longest partial linearization: operation numbers in order, the state after them, and the pending operations
    that are illegal there."""

    order: tuple[int, ...]
    state: str
    illegal: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """Why a history is not linearizable. All lists hold operation numbers.

    ``prefix``: the longest linearizable prefix (the history up to before the return of ``blocked``), in an order that
    is allowed. ``blocked``: the operation that can't be placed. ``dead_ends``: up to ten configurations there.
    ``minimal``: a sub-history that is still illegal, and from which nothing can be taken away; each value of an
    observed or removed operation keeps its meaning. ``reason``: a sentence, where an algorithm that needs no search
    found a pattern.
    """

    key: str | None
    reason: str
    prefix: tuple[int, ...]
    blocked: int
    dead_ends: tuple[DeadEnd, ...]
    minimal: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What became of the elements of a queue, as JSON texts with how often each: ``lost`` were acknowledged, and a
    later drain found the queue empty without them; ``unexpected`` came out and were never put in; ``duplicated`` came
    out more often than they were put in; ``recovered`` came out although their enqueue was not acknowledged;
    ``outstanding`` were acknowledged and did not come out, and nothing proves that they are lost. ``rows``: the lines
    of the calls on lost and unexpected elements."""

    lost: Mapping[str, int]
    unexpected: Mapping[str, int]
    duplicated: Mapping[str, int]
    recovered: Mapping[str, int]
    outstanding: Mapping[str, int]
    attempts: int
    acknowledged: int
    dequeued: int
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a checker found. ``valid`` is None when undecided. ``ms``: time in the checker. ``configs``: configurations
    visited, 0 when no search was needed. ``orders``: when asked for and valid, per key a linearization: numbers of all
    completed operations and of the crashed ones that took effect, in order. ``tally``: of a total-queue."""

    id: str | int
    valid: bool | None
    ms: float
    configs: int
    peak_mib: float
    undecided: tuple[Undecided, ...] = ()
    witness: Witness | None = None
    orders: Mapping[str | None, tuple[int, ...]] = field(default_factory=dict)
    tally: Tally | None = None
