"""The probability of a failure over the time of a run, as it was measured at some moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from reports.sweeps.chances import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The run went its way up to row ``row`` (at ``at_s`` seconds since the load began; ``told`` in words), and from
    there on with fresh randomness. ``same``: how often the very violation came again; ``alike``: how often a failure of
    the same signature did."""

    row: int
    at_s: float
    told: str
    same: Share
    alike: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The ``moments`` of one violation, ascending. ``about``: what it is a violation of, such as a message; "" where
    that has no name, and then ``same`` is ``alike``. ``notes``: what else must be known, a sentence each."""

    run: Path
    law: str
    name: str
    number: int
    text: str
    about: str
    moments: Sequence[Moment]
    notes: Sequence[str] = ()

    @property
    def jump(self) -> tuple[Moment, Moment] | None:
        """The two neighbours between which the probability of the very violation rises most, the later ones of
        several; None where it never rises."""
        pairs = [(one, other) for one, other in pairwise(self.moments) if other.same.value > one.same.value]
        return max(reversed(pairs), key=lambda pair: pair[1].same.value - pair[0].same.value, default=None)
