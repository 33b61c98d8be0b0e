"""The probability of a failure over the time of a run, as it was measured at some moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from reports.sweeps.chances import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The run went its way up to row ``row`` (at ``at_s`` seconds since the load began; ``event`` in words), and from
    there on with fresh randomness. ``same``: how often the very violation came again; ``alike``: how often a failure of
    the same signature did."""

    row: int
    at_s: float
    event: str
    same: Share
    alike: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The ``moments`` of one violation, ascending. ``about``: what it is a violation of, such as a message; "" where
    that has no name, and then ``same`` is ``alike``. ``happened``: of the rows between the two moments of the largest
    jump, with the later one, the first ones in words. ``faults`` of the run, each with the seconds of its begin and its
    end. ``notes``: what else must be known, a sentence each."""

    run: Path
    law: str
    name: str
    number: int
    text: str
    about: str
    moments: Sequence[Moment]
    happened: Sequence[str] = ()
    faults: Sequence[tuple[str, float, float]] = ()
    notes: Sequence[str] = ()

    @property
    def jump(self) -> tuple[Moment, Moment] | None:
        """The two neighbours between which the probability of the very violation rises most, the later ones of
        several; None where it never rises."""
        return largest_jump(self.moments)

    @property
    def may_be_chance(self) -> bool:
        """Whether the bounds on both sides of the largest jump overlap."""
        return self.jump is not None and overlap(*self.jump)


def largest_jump(moments: Sequence[Moment]) -> tuple[Moment, Moment] | None:
    pairs = [(one, other) for one, other in pairwise(moments) if other.same.value > one.same.value]
    return max(reversed(pairs), key=lambda pair: pair[1].same.value - pair[0].same.value, default=None)


def overlap(before: Moment, after: Moment) -> bool:
    return before.same.high >= after.same.low
