"""One queue offset holds one message, on every replica, in every answer and in the tier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.agreement.content import Content
from checkers.agreement.metadata import Metadata
from checkers.agreement.node_reads import NodeReads


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


def create(options: Options) -> Sequence[Content | Metadata | NodeReads]:
    return (Content(), Metadata(), NodeReads())
