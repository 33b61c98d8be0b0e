"""Old messages go when their topic's rule allows it, not before and not much later; no rule touches another topic.

A group's leader decides it by the topic's entry at a version and by logged time, and logs it as TRIM. So what each trim
counts on stands in its entry, and is held to meta's log and to what was sealed before. Only how long something was kept
too long takes a time, which the group logs itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkers.retention.law import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Retention:
    return Retention()
