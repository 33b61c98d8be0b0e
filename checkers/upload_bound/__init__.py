"""The tier holds only what is confirmed: P ≤ confirm in the step that commits, with the same bytes as the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.upload_bound.bound import Bound
from checkers.upload_bound.content import Content
from checkers.upload_bound.positions import Positions
from checkers.upload_bound.promise import PROMISE
from checkers.upload_bound.versions import Versions

__all__ = ["PROMISE", "Options", "create"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Bound | Positions | Content | Versions]:
    return (Bound(), Positions(), Content(), Versions())
