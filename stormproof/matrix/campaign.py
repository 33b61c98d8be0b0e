"""Runs what is left of a matrix, one run after the other, and notes each as soon as it was judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos.errors import BadInput
from chaos.experiment import source
from chaos.history import directory as store
from chaos.verdict import Validity
from reports.matrix.note import Note, append, digest_of, note_of, read
from stormproof.campaign.campaign import Campaign, Done, Key, Pace, Task
from stormproof.campaign.local import one_by_one
from stormproof.matrix.cells import Cell
from stormproof.scenario_run import error_of, execute, render
from stormproof.scenarios import Scenario

RUNS, SSH = "runs", "ssh"
LOCK = ".run.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTask:
    """Run a cell with a seed in the folder of the matrix, and note it there or in another file. Of a VALID run only
    ``run.json`` and ``verdict.json`` are kept. ``no_loss_by_policy``, ``inventory``: as in
    :class:`stormproof.scenarios.Scenario`."""

    cell: Cell
    seed: int
    home: Path
    notes: Path
    no_loss_by_policy: bool
    inventory: Path | None

    @property
    def key(self) -> Key:
        return self.cell.row, self.cell.column, self.seed

    def do(self) -> Done:
        cell = self.cell
        asked = Scenario(
            file=cell.file,
            on=cell.on,
            seeds=(self.seed,),
            no_loss_by_policy=self.no_loss_by_policy,
            inventory=self.inventory,
        )
        began_s = time.monotonic()
        try:
            run = execute(asked, cell.file, self.seed, self.home / RUNS, self.home / LOCK)
            append(self.notes, [_note(run.directory, cell, seconds=time.monotonic() - began_s)])
            if run.verdict.validity is Validity.VALID:
                store.trim(run.directory)
            else:
                render(run)
        except Exception as error:  # whatever it was, the others are run all the same
            return Done(key=self.key, error=f"{self}: {error_of(error)}")
        return Done(key=self.key)

    def __str__(self) -> str:
        return f"{self.cell.row} on {self.cell.column}, seed {self.seed}"


class MatrixCampaign(Campaign):
    """The runs of a matrix. ``notes``: the file in which they are noted; ``say`` takes a sentence for each run that
    begins, and one for each that has ended."""

    def __init__(self, home: Path, notes: Path, say: Callable[[str], None]) -> None:
        super().__init__(home)
        self._notes = notes
        self._say = say
        self._ended = 0

    def run(
        self, jobs: Sequence[tuple[Cell, int]], *, budget_s: float, no_loss_by_policy: bool, inventory: Path | None
    ) -> None:
        """Run and note each, on the hosts of the ``inventory`` where they are on hosts; none is begun after
        ``budget_s`` (0: no limit). After Ctrl-C the run is healed and not noted, and ``KeyboardInterrupt`` comes
        through."""
        tasks = [
            CellTask(
                cell=cell,
                seed=seed,
                home=self.directory,
                notes=self._notes,
                no_loss_by_policy=no_loss_by_policy,
                inventory=inventory if cell.on == SSH else None,
            )
            for cell, seed in jobs
        ]
        pace = Pace(len(tasks))

        def on_begin(task: Task) -> None:
            left = pace.left(self._ended)
            self._say(f"{self._ended + 1} of {len(tasks)}: {task}{left and f', {left}'}")

        self.carry_out(tasks, partial(one_by_one, budget_s=budget_s, on_begin=on_begin), lambda: False)
        if left := len(tasks) - self._ended:
            self._say(f"the time is up: {left} {'run is' if left == 1 else 'runs are'} left")

    def end(self, done: Done) -> None:
        super().end(done)
        self._ended += 1
        if done.key in self.errors:
            self._say(f"error: {self.errors[done.key]}")

    def take(self, key: Key) -> None:
        note = read(self._notes)[-1]
        self._say(
            f"  {note.line or note.verdict}{''.join(f', {name} {count}' for name, count in note.anomalies.items())}"
        )


def _note(run: Path, cell: Cell, seconds: float | None = None) -> Note:
    words = {"row": cell.row, "column": cell.column, "digest": cell.digest}
    return note_of(run, **words, experiment=cell.experiment, seconds=seconds)


def recorded(run: Path, cells: Sequence[Cell]) -> Note:
    """Return a note of a judged run that was made otherwise, of the cell whose experiment and deployment it had. Raises
    :class:`BadInput` where no cell has, and for a run that was interrupted."""
    meta = store.read_meta(run)
    document, on = source.read(run / store.EXPERIMENT, links=False).root, meta.deployment
    if meta.ended is not None and meta.ended.interrupted:
        raise BadInput(f"{run}: it was interrupted, so that it is no run of its experiment")
    for cell in cells:
        if cell.on == on and isinstance(document, dict) and cell.digest == digest_of(document):
            return _note(run, cell)
    raise BadInput(f"{run}: no cell of the matrix has its experiment and its deployment ({on})")
