"""Experiments as tests: the decorator ``@stormproof.scenario``, and what a test learns of its run.

Importing this page loads the standard library only; pytest comes with the decorator's first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

if TYPE_CHECKING:
    import pyarrow as pa

    from chaos.verdict import RunVerdict

#: The mark by which the plug-in knows such tests.
MARK = "stormproof_scenario"
#: The fixture that runs the experiment.
FIXTURE = "stormproof_run"

Expected = Literal["VALID", "INVALID", "UNKNOWN"]
_Test = TypeVar("_Test", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a decorated test asks for. ``expect``: the verdict with which it passes; ``violates``: the law that must be
    among the violated ones, "" for any; ``no_loss_by_policy``: any loss is a violation, also one that the profile
    permits; ``inventory``: the file that lists the hosts of ``--on ssh``."""

    file: Path
    on: str
    seeds: tuple[int, ...]
    mutant: str = ""
    expect: Expected = "VALID"
    violates: str = ""
    no_loss_by_policy: bool = False
    inventory: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ScenarioRun:
    """One judged run, as the fixture ``stormproof_run`` gives it to a test. ``directory`` holds its history and its
    ``verdict.json``; it is removed after the test has passed, unless all runs are to be kept. ``replay`` is the command
    that runs it again."""

    directory: Path
    seed: int
    verdict: RunVerdict
    replay: str

    def __repr__(self) -> str:
        return f"ScenarioRun({self.verdict.line}, seed {self.seed}, {self.directory})"

    @property
    def violated(self) -> tuple[str, ...]:
        """The names of the violated laws."""
        return tuple(law.law for law in self.verdict.laws if law.validity == "INVALID")

    def story(self) -> str:
        """Return the run in one sentence: the first cause of its violations, why it is UNKNOWN, or what it went
        through."""
        from reports.in_words import story

        return story(self.directory)

    def history(self) -> pa.Table:
        """Return all rows, in the order in which they were recorded; ``docs/history.md`` has the columns."""
        from chaos.history.history import History

        return History.open(self.directory).table

    def rows(self, kind: str, *names: str) -> list[Mapping[str, Any]]:
        """Return the rows of a ``kind`` (``op``, ``fault``, ``poll``, ``trace``, …) with one of these names in column
        ``f``, or with any, in the order in which they were recorded; ``value`` is JSON text, as in the history."""
        from chaos.history.history import History

        found: list[Mapping[str, Any]] = History.open(self.directory).rows(kind, *names).to_pylist()
        return found


def scenario(
    file: str | Path,
    *,
    on: str = "sim",
    seeds: Iterable[int] = (0,),
    mutant: str = "",
    expect: Expected | None = None,
    violates: str = "",
    no_loss_by_policy: bool = False,
) -> Callable[[_Test], _Test]:
    """Make a test function (or a class of them) run the experiment in ``file`` once for each of the ``seeds``.

    Each seed is a test of its own, which fails unless the run's verdict is the one to ``expect``: VALID, if nothing
    else is said. A run that is UNKNOWN fails too. The function may be empty; one that takes the fixture
    ``stormproof_run``, a :class:`ScenarioRun`, may look further into a run that was judged as expected.

    ``file``: its path from the folder of the test's file or, if it isn't there, from pytest's root directory.
    ``on``: the deployment; runs on any other than ``sim`` come one at a time, also under pytest-xdist.
    ``mutant``: a planted bug of the reference system. ``violates``: the law that the run must violate, which makes it
    INVALID; others may be violated with it. ``no_loss_by_policy``: any loss is a violation, also one that the system's
    profile permits.

    Raises ``ValueError`` for what can't be meant: no seed, or one that is not a number from 0 to 2**63 - 1; a verdict
    that there isn't; ``violates`` together with another verdict than INVALID.
    """
    expected = expect or ("INVALID" if violates else "VALID")
    if expected not in get_args(Expected):
        raise ValueError(f"expect must be one of {', '.join(get_args(Expected))}, not {expected!r}")
    if violates and expected != "INVALID":
        raise ValueError(f"a run that violates {violates!r} is INVALID; it can't be expected to be {expected}")
    asked = Scenario(
        file=Path(file),
        on=on,
        seeds=_checked(seeds),
        mutant=mutant,
        expect=expected,
        violates=violates,
        no_loss_by_policy=no_loss_by_policy,
    )

    def mark(test: _Test) -> _Test:
        import pytest

        return pytest.mark.usefixtures(FIXTURE)(getattr(pytest.mark, MARK)(asked)(test))

    return mark


def _checked(seeds: Iterable[int]) -> tuple[int, ...]:
    """Return these seeds. Raises ``ValueError`` for one that is none, or when there are none."""
    from chaos.draws import MOST_SEED

    numbers = tuple(seeds)
    if not numbers or not all(type(seed) is int and 0 <= seed <= MOST_SEED for seed in numbers):
        raise ValueError("seeds must be numbers from 0 to 2**63 - 1, one at least")
    return numbers
