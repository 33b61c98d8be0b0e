"""Histories of registers, locks, maps, queues and metadata are judged by a search, in Java where there is Java.

What others may use is in ``public.py`` and is imported from here: ``from checkers.linearizable import check``. All else
is this package's own (``README.md``). Importing it loads next to nothing until a name is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from chaos.law import Law
from checkers.linearizable.history import History, Result
from checkers.linearizable.paths import JAR

if TYPE_CHECKING:
    from checkers.linearizable.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        if name == "JARS":
            # What the law needs where Spark is: the checker in Java, which workers start, and `check_keys` finds there.
            # One that is older than its sources judges nothing, so it isn't sent there.
            jar = import_module(f"{__name__}.jar")
            return () if jar.problem() else (JAR,)
        if name.startswith("_") or find_spec(f"{__name__}.{name}") is not None:  # a module, which is yet to be loaded
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.public"), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The law has none."""


def create(options: Options) -> Law:
    from checkers.linearizable.law import Linearizable

    return Linearizable(search=_search)


def _search(histories: Iterable[History]) -> Iterator[Result]:
    from checkers.linearizable.checker import examine  # late: few runs have objects that are this hard

    return examine(histories, time_limit_s=30.0)
