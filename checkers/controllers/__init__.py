"""Controllers keep to what they agreed on, change nothing without a cause, and serve while a majority is well.

Leaders are judged by causes: a leader whom a majority hears stays, and so does a master that speaks to the controllers.
What may have been a cause is known by its effects and counts for a while after its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.controllers.decisions import Decisions
from checkers.controllers.service import Service
from checkers.controllers.without_cause import WithoutCause


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Decisions | WithoutCause | Service]:
    return (Decisions(), WithoutCause(), Service())
