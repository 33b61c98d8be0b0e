"""Waivers: violations that an experiment puts up with, each kind for a reason and within a bound."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: What can't be waived: a run that loses or makes up messages shows nothing else.
NEVER = ("lost", "unexpected")
#: The phases of a run, in their order; a waiver holds in one of them.
PHASES = ("setup", "ready", "load", "heal", "recover", "drain", "collect", "stop")
#: A reason is a sentence that stands in a line of a verdict.
LONGEST_REASON = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """Up to ``most`` violations of one kind, or those that were made in one ``phase`` of the run, are no violations:
    for a ``reason``. Exactly one of the bounds is set. Raises ``ValueError`` for anything else."""

    anomaly: str
    reason: str
    most: int = 0
    phase: str = ""

    def __post_init__(self) -> None:
        if self.anomaly in NEVER:
            raise ValueError(f"`{self.anomaly}` can't be waived: a system that does that keeps no promise at all")
        if not self.reason.strip() or len(self.reason) > LONGEST_REASON or re.search(r"[\x00-\x1f\x7f]", self.reason):
            raise ValueError(f"reason: expected a sentence in one line, of at most {LONGEST_REASON} characters")
        if (self.most > 0) == bool(self.phase):
            raise ValueError("say how far it goes with exactly one of most (how many violations), phase")
        if self.phase and self.phase not in PHASES:
            raise ValueError(f"unknown phase {self.phase!r}; known: {', '.join(PHASES)}")

    @property
    def bound(self) -> str:
        """How far it goes, in words."""
        return f"in the phase {self.phase}" if self.phase else f"at most {self.most:,}"


def problem_of(written: Sequence[Any]) -> str:
    """Return what is wrong with waivers as ``run.json`` has them; "" for nothing."""
    try:
        for one in written:
            if not isinstance(one, Mapping) or not isinstance(one.get("most", 0), int):
                return "expected objects, each with anomaly, reason, and most or phase"
            Waiver(**one)
    except (TypeError, ValueError, AttributeError) as error:
        return str(error)[:200]
    return ""
