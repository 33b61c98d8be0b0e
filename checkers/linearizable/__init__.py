"""Histories of registers, locks, maps, queues and metadata are judged by a search, in Java where there is Java.

Importing this package loads next to nothing; ``README.md`` says what is where.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.law import Law
from checkers.linearizable.paths import JAR

#: What the law needs on the class path of Spark's JVM: the checker in Java, which works there where Spark is up.
JARS = (JAR,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The law has none."""


def create(options: Options) -> Law:
    from checkers.linearizable.checker import examine
    from checkers.linearizable.law import Linearizable

    return Linearizable(search=lambda histories: examine(histories, time_limit_s=30.0))
