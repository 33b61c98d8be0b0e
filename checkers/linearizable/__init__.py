"""Histories of registers, locks, maps, queues and metadata are judged by a search, in Java where there is Java.

Importing this package loads next to nothing; ``README.md`` says what is where.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chaos.kernel import Kernel
from checkers.linearizable.history import History, Result
from checkers.linearizable.paths import JAR

#: What the law needs on the class path of Spark's JVM: the checker in Java, which works there where Spark is up.
JARS = (JAR,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The law has none."""


def create(options: Options) -> Kernel:
    from checkers.linearizable.law import Linearizable

    return Linearizable(search=_search)


def _search(histories: Iterable[History]) -> Iterator[Result]:
    from checkers.linearizable.checker import examine  # late: few runs have objects that are this hard

    return examine(histories, time_limit_s=30.0)
