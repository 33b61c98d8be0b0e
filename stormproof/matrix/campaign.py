"""Runs what is left of a matrix, one run after the other, and notes each as soon as it was judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos.errors import BadInput
from chaos.experiment import source
from chaos.history import directory as store
from chaos.verdict import Validity
from reports.matrix.note import Note, append, digest_of, note_of
from stormproof.matrix.cells import Cell
from stormproof.scenario_run import error_of, execute, render
from stormproof.scenarios import Scenario

RUNS = "runs"
LOCK = ".run.lock"

Say = Callable[[str], None]


def run_all(
    jobs: Sequence[tuple[Cell, int]],
    home: Path,
    notes: Path,
    say: Say,
    failed: list[str],
    budget_s: float = 0.0,
    *,
    no_loss_by_policy: bool = False,
) -> None:
    """Run and note each; none is begun after ``budget_s`` (0: no limit). ``failed`` gets a sentence for each that could
    not be carried out; ``no_loss_by_policy`` as in :class:`stormproof.launch.Launch`. Of VALID runs only ``run.json``
    and ``verdict.json`` are kept. After Ctrl-C the run is healed and not noted, and ``KeyboardInterrupt`` comes
    through."""
    began_s = time.monotonic()
    for number, (cell, seed) in enumerate(jobs, start=1):
        since_s = time.monotonic() - began_s
        if budget_s and since_s >= budget_s:
            say(f"the time is up: {len(jobs) - number + 1} runs are left")
            return
        what = f"{cell.row} on {cell.column}, seed {seed}"
        left = f", about {since_s / (number - 1) * (len(jobs) - number + 1) / 60:.0f} min left" if number > 1 else ""
        say(f"{number} of {len(jobs)}: {what}{left}")
        try:
            note = _run(cell, seed, home, notes, no_loss_by_policy=no_loss_by_policy)
        except Exception as error:  # whatever it was, the others are run all the same
            failed.append(f"{what}: {error_of(error)}")
            say(f"error: {failed[-1]}")
            continue
        say(f"  {note.line or note.verdict}{''.join(f', {name} {count}' for name, count in note.anomalies.items())}")


def _run(cell: Cell, seed: int, home: Path, notes: Path, *, no_loss_by_policy: bool) -> Note:
    asked = Scenario(file=cell.file, on=cell.on, seeds=(seed,), no_loss_by_policy=no_loss_by_policy)
    run = execute(asked, cell.file, seed, home / RUNS, home / LOCK)
    note = note_of(run.directory, row=cell.row, column=cell.column, digest=cell.digest, experiment=cell.experiment)
    append(notes, [note])
    if run.verdict.validity is Validity.VALID:
        store.trim(run.directory)
    else:
        render(run)
    return note


def recorded(run: Path, cells: Sequence[Cell]) -> Note:
    """Return a note of a judged run that was made otherwise, of the cell whose experiment and deployment it had. Raises
    :class:`BadInput` where no cell has, and for a run that was interrupted."""
    meta = store.read_meta(run)
    document, on = source.read(run / store.EXPERIMENT, links=False).root, meta.deployment
    if meta.ended is not None and meta.ended.interrupted:
        raise BadInput(f"{run}: it was interrupted, so that it is no run of its experiment")
    for cell in cells:
        if cell.on == on and isinstance(document, dict) and cell.digest == digest_of(document):
            return note_of(run, row=cell.row, column=cell.column, digest=cell.digest, experiment=cell.experiment)
    raise BadInput(f"{run}: no cell of the matrix has its experiment and its deployment ({on})")
