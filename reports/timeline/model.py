"""What a timeline shows: the calls on one object, how far they can be put into an order, and what lies behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.linearizable import PartialLinearization


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBar:
    """One call, drawn as a bar. ``call`` and ``ret`` are positions in the order of events, ``ret`` is None if it never
    returned; ``call_s`` and ``ret_s`` the times where they are known. ``detail`` is shown when the call is selected."""

    number: int
    process: str
    label: str
    call: int
    ret: int | None
    call_s: float | None = None
    ret_s: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectTimeline:
    """One object and all calls on it. ``verdict`` is valid, invalid or unknown; ``reason`` is one sentence on it.

    ``orders``: the longest partial linearizations (a whole one, if valid). ``blocked``: the call that no order can
    place. ``minimal``: the minimal witness, ``minimal_orders``: how far its calls alone can get. Calls are numbers of
    bars. ``placed`` and ``of``: how many completed calls an undecided search placed, and of how many."""

    key: str | None
    verdict: str
    calls: Sequence[CallBar]
    reason: str = ""
    blocked: int | None = None
    orders: Sequence[PartialLinearization] = ()
    minimal: Sequence[int] = ()
    minimal_orders: Sequence[PartialLinearization] = ()
    placed: int = 0
    of: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Something drawn behind the calls while it lasted: ``kind`` is fault or a role; ``lane`` names its row."""

    lane: str
    start_s: float
    end_s: float
    label: str
    kind: str
