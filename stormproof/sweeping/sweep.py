"""A sweep from its plan to its table: whatever ends it, the rows that there are stay, and are never made again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reports.sweeps import html
from reports.sweeps.row import Row, read
from reports.sweeps.table import Table, tabulate
from stormproof.campaign import local, on_spark
from stormproof.campaign.campaign import Campaign, Done, Key, Way
from stormproof.sweeping.plan import RUNS, Plan, row_path
from stormproof.sweeping.task import Task

if TYPE_CHECKING:
    from chaos.judging.spark import Session

#: Takes how many rows there are, and how many of them are failures.
OnProgress = Callable[[int, int], None]


class Sweep(Campaign):
    """What is known of a sweep in ``directory``: ``rows`` by file and seed."""

    def __init__(self, directory: Path, plan: Plan) -> None:
        super().__init__(directory.resolve())
        self.plan = plan
        self.rows: dict[Key, Row] = {}
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

        def is_enough() -> bool:
            on_progress(len(self.rows), self.failures)
            return 0 < stop_on <= self.failures

        way: Way = partial(local.run, budget_s=budget_s)
        if session is not None:
            way = partial(on_spark.run, session=session, has_row=self._has_row, budget_s=budget_s)
        left = [key for key in self.plan.runs() if key not in self.rows]
        tasks = [Task(directory=str(self.directory), file=key[0], seed=key[1], reports=session is None) for key in left]
        self.carry_out(tasks, way, is_enough)

    def take(self, key: Key) -> None:
        self.rows[key] = read(row_path(self.directory, key))

    def _has_row(self, key: Key) -> bool:
        return row_path(self.directory, key).exists()

    def _look(self) -> None:
        """Take the rows that are there."""
        for key in self.plan.runs():
            if key not in self.rows and self._has_row(key):
                self.end(Done(key=key))

    def table(self) -> Table:
        return tabulate(
            list(self.rows.values()), [file.name for file in self.plan.files], self.plan.mutant, len(self.plan.runs())
        )

    def finish(self) -> Table:
        """Write the page, with the reports of the examples; remove what killed tasks have left. Raises
        :class:`chaos.errors.MachineError`."""
        from stormproof.sweeping.judged import render_readable

        self._look()  # what was under way when it was interrupted
        if not self.plan.beside:
            _remove_torn(self.directory / RUNS, self.rows)
        table = self.table()
        for cause in table.causes:
            run = self.directory / self.rows[cause.example].run
            if self.rows[cause.example].run and not (run / html.REPORT).exists():
                render_readable(run)
        html.write(self.directory, table)
        return table


def _remove_torn(runs: Path, rows: Mapping[Key, Row]) -> None:
    """Remove the runs without a row: their tasks were killed."""
    for path in runs.glob("*-*"):
        file, _, seed = path.name.partition("-")
        if file.isdecimal() and seed.isdecimal() and (int(file), int(seed)) not in rows:
            shutil.rmtree(path, ignore_errors=True)
