"""A sweep from its plan to its table: whatever ends it, the rows that there are stay, and are never made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from chaos.errors import ChaosError
from reports.sweeps import html
from reports.sweeps.row import Row, read
from reports.sweeps.table import Table, tabulate
from stormproof.sweeping import local, on_spark
from stormproof.sweeping.plan import RUNS, Plan, row_path
from stormproof.sweeping.task import Done, Task

if TYPE_CHECKING:
    from chaos.judging.spark import Session

Key = tuple[int, int]
#: Takes how many rows there are, and how many of them are failures.
OnProgress = Callable[[int, int], None]


class Sweep:
    """What is known of a sweep in ``directory``: ``rows`` by file and seed, and the ``errors`` of tasks that left no
    row, which a resumed sweep tries again. ``hopeless``: why it was of no use to go on; "" if it was."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        self.directory = directory.resolve()
        self.plan = plan
        self.rows: dict[Key, Row] = {}
        self.errors: dict[Key, str] = {}
        self.hopeless = ""
        self._look()

    @property
    def failures(self) -> int:
        return sum(row.failed for row in self.rows.values())

    def run(
        self,
        *,
        session: Session | None = None,
        stop_on: int = 0,
        budget_s: float = 0.0,
        on_progress: OnProgress = lambda done, failed: None,
    ) -> None:
        """Run what has no row yet, on the cores of this machine, or on Spark's executors. With ``stop_on`` no run
        begins after so many failures. Ctrl-C ends it, and is raised again once the workers have ended."""
        tasks = [self._task(key, session is None) for key in self.plan.runs() if key not in self.rows]
        on_progress(len(self.rows), self.failures)
        if not tasks or (stop_on and self.failures >= stop_on):
            return

        def enough() -> bool:
            on_progress(len(self.rows), self.failures)
            return bool(self.hopeless) or (stop_on > 0 and self.failures >= stop_on)

        if session is None:
            with closing(local.run(tasks, budget_s=budget_s)) as ending:
                self._follow(ending, enough)
        else:

            def look() -> bool:
                self._look()
                return enough()

            for done in on_spark.run(session, tasks, look, budget_s=budget_s):
                self._take(done)
            self._look()
            enough()

    def _follow(self, ending: Generator[Done, bool | None, None], enough: Callable[[], bool]) -> None:
        try:
            done = next(ending)
            while True:
                self._take(done)
                done = ending.send(enough())
        except StopIteration:
            pass

    def _task(self, key: Key, reports: bool) -> Task:
        return Task(directory=str(self.directory), file=key[0], seed=key[1], reports=reports)

    def _take(self, done: Done) -> None:
        if done.error:
            self.errors[done.key] = done.error
            if done.hopeless:
                self.hopeless = done.error
            return
        try:
            self.rows[done.key] = read(row_path(self.directory, done.key))
        except (ChaosError, OSError) as error:
            self.errors[done.key] = str(error)

    def _look(self) -> None:
        """Take the rows that came since the last look."""
        for key in self.plan.runs():
            if key not in self.rows and row_path(self.directory, key).exists():
                self._take(Done(key=key))

    def table(self) -> Table:
        return tabulate(
            list(self.rows.values()), [file.name for file in self.plan.files], self.plan.mutant, len(self.plan.runs())
        )

    def finish(self) -> Table:
        """Write the page, with the reports of the examples; remove what killed tasks have left. Raises
        :class:`chaos.errors.MachineError`."""
        from reports import render

        self._look()  # what was under way when it was interrupted
        if not self.plan.beside:
            _remove_torn(self.directory / RUNS, self.rows)
        table = self.table()
        for cluster in table.clusters:
            run = self.directory / self.rows[cluster.example].run
            if self.rows[cluster.example].run and not (run / html.REPORT).exists():
                try:
                    render(run)
                except ChaosError:  # its history can't be read; the row says what is known
                    pass
        html.write(self.directory, table)
        return table


def _remove_torn(runs: Path, rows: Mapping[Key, Row]) -> None:
    """Remove the runs without a row: their tasks were killed."""
    for path in runs.glob("*-*"):
        file, _, seed = path.name.partition("-")
        if file.isdecimal() and seed.isdecimal() and (int(file), int(seed)) not in rows:
            shutil.rmtree(path, ignore_errors=True)
