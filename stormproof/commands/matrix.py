"""``stormproof matrix``: experiments × systems, run one after the other, as one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table as Shown

from chaos.errors import BadInput, MachineError
from stormproof.commands import _console
from stormproof.commands._campaign import is_carried_out
from stormproof.commands._options import json_option, no_loss_option, out_option, state_option
from stormproof.commands._single import say_unmarked
from stormproof.commands.run import Duration
from stormproof.outcome import ExitCode, worst_code

if TYPE_CHECKING:
    from reports.matrix.note import Note
    from reports.matrix.table import Line, Table
    from stormproof.matrix.cells import Cell
    from stormproof.matrix.file import Matrix

NOTES = "notes.jsonl"
MARKDOWN = "table.md"


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--row",
    "rows",
    multiple=True,
    metavar="NAME",
    help="Run this experiment only; may be repeated, `*` stands for anything.",
)
@click.option("--column", "columns", multiple=True, metavar="NAME", help="Run this system only; may be repeated.")
@click.option("--runs", type=click.IntRange(1), default=None, help="Run no cell more often than this.")
@click.option("--again", is_flag=True, help="Run again what was UNKNOWN.")
@click.option("--time-budget", type=Duration(), default=None, help="Begin no run after this time.")
@click.option("--table", "only_table", is_flag=True, help="Run nothing: make the table from the notes.")
@click.option(
    "--record",
    "recorded",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="RUN",
    help="Run nothing: note this run, which was made otherwise; may be repeated.",
)
@click.option(
    "--notes",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE",
    help=f"Where the runs are noted (default: {NOTES} in the folder of the matrix).",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="PAGE.md",
    help="Also put the table between its marks in this page, and the pictures into the folder PAGE beside it.",
)
@click.option(
    "--inventory",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="The hosts of columns on ssh, instead of those in the experiments.",
)
@no_loss_option
@out_option
@state_option
@json_option
def matrix(
    file: Path,
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    runs: int | None,
    again: bool,
    time_budget: float | None,
    only_table: bool,
    recorded: tuple[Path, ...],
    notes: Path | None,
    page: Path | None,
    inventory: Path | None,
    no_loss_by_policy: bool,
    out: Path,
    as_json: bool,
) -> None:
    """Run every experiment of the matrix in FILE on every system of it, several times, and make one table of it.

    Each run is noted when it was judged. After Ctrl-C the same command goes on where it was. The folder matrix-NAME in
    --out holds the notes, the failed runs, the table (table.md), and a page with it, `index.html`. Exit codes: as those
    of `run --seeds`, of all noted runs of the matrix; what its experiment is made to break (`violates`) makes no run
    INVALID, and where no run broke it the code is 1.
    """
    from reports.matrix.note import read
    from stormproof.campaign.campaign import alone
    from stormproof.matrix import cells as grid
    from stormproof.matrix.file import load

    loaded = load(file)
    _check_names(file, loaded, rows, columns)
    home = _made(out / f"matrix-{loaded.name}")
    noted = notes or home / NOTES
    with alone(home):
        found = grid.cells(loaded, home)
        failed: list[str] = []
        if recorded:
            _record(recorded, found, noted)
        elif not only_table:
            chosen = grid.chosen(found, rows, columns, runs)
            how = {"budget_s": time_budget or 0.0, "no_loss_by_policy": no_loss_by_policy, "inventory": inventory}
            failed = _run(grid.jobs(chosen, read(noted), again=again), home, noted, **how)
        made = _table(loaded, found, noted)
        _write(made, home, page)
    if as_json:
        from reports.matrix.table import as_object

        _console.print_json({"directory": str(home), **as_object(made), "errors": failed})
    else:
        _show(made, home)
    click.get_current_context().exit(_worst(made, failed, no_loss_by_policy))


def _made(folder: Path) -> Path:
    """Make a folder and return it. Raises :class:`MachineError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot make {folder}: {error.strerror or error}") from error
    return folder


def _check_names(file: Path, matrix: Matrix, rows: Sequence[str], columns: Sequence[str]) -> None:
    from chaos.plugins import nearest
    from stormproof.matrix.file import fits

    problems = []
    for what, given, known in (
        ("row", rows, [row.name for row in matrix.rows]),
        ("column", columns, [column.name for column in matrix.columns]),
    ):
        problems += [
            f"{file} has no {what} {name!r}; {nearest(name, known)}"
            for name in given
            if not any(fits(one, [name]) for one in known)
        ]
    if problems:
        raise BadInput(*problems)


def _run(left: Sequence[tuple[Cell, int]], home: Path, notes: Path, **how: Any) -> list[str]:
    """Run what is left, ``how`` as :meth:`MatrixCampaign.run` takes it; returns a sentence for each run that could not
    be carried out, and for each system and deployment that this machine lacks."""
    from stormproof.doctor import lacking
    from stormproof.matrix.campaign import MatrixCampaign

    absent = {on: lacking(on) for on in sorted({cell.on for cell, _ in left})}
    lacks = [cell.uninstalled or (absent[cell.on] and f"--on {cell.on}: {absent[cell.on]}") for cell, _ in left]
    for deployment in (on for on in absent if not absent[on]):
        say_unmarked(deployment)
    campaign = MatrixCampaign(home, notes, _say)
    able = [one for one, lack in zip(left, lacks, strict=True) if not lack]
    is_whole = is_carried_out(campaign, partial(campaign.run, able, **how), "go on with the same command")
    problems = [f"{lack} (runs left: {count})" for lack, count in Counter(filter(None, lacks)).items()]
    for problem in problems:
        _say(f"error: {problem}")
    return [*campaign.errors.values(), *problems, *([] if is_whole else ["interrupted"])]


def _say(sentence: str) -> None:
    _console.err().print(sentence, markup=False)


def _record(runs: Sequence[Path], found: Sequence[Cell], notes: Path) -> None:
    """Note runs that are noted nowhere yet."""
    from reports.matrix.note import append, read
    from stormproof.matrix.campaign import recorded

    known = {note.key for note in read(notes)}
    append(notes, [note for note in (recorded(run, found) for run in runs) if note.key not in known])


def _table(matrix: Matrix, found: Sequence[Cell], notes: Path) -> Table:
    from reports.matrix.note import read
    from reports.matrix.table import Place, table

    places = [
        Place(
            row=cell.row,
            column=cell.column,
            on=cell.on,
            wanted=cell.runs,
            digest=cell.digest,
            lacks=cell.lacks,
            violates=cell.violates,
        )
        for cell in found
    ]
    return table(matrix.name, places, read(notes), compares=matrix.compares)


def _write(made: Table, home: Path, page: Path | None) -> None:
    from chaos import guarded
    from reports.matrix import html, pictures
    from reports.matrix.as_markdown import between_marks, markdown
    from stormproof.matrix.campaign import RUNS

    html.write(home, RUNS, made)
    document = markdown(made, pictures.write(home, made))
    guarded.write(home / MARKDOWN, document)
    if page is None:
        return
    try:
        text = guarded.read(page, links=True).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MachineError(f"cannot read {page}: {error}") from error
    shown = {shows: f"{page.stem}/{name}" for shows, name in pictures.write(page.with_suffix(""), made).items()}
    guarded.write(page, between_marks(text, markdown(made, shown), str(page)))


def _show(made: Table, home: Path) -> None:
    console = _console.out()
    shown = Shown(box=None, pad_edge=False, show_edge=False)
    for title in ("experiment", "system", "runs", "INVALID", "s without service", "s to recover"):
        shown.add_column(title, overflow="fold")
    for line in made.lines:
        shown.add_row(*map(escape, _words(line, compares=made.compares)))
    console.print(shown)
    if made.faults:
        console.print()
        _show_faults(made)
    if made.outdated:
        words = "notes are of experiments that have changed since, or that the matrix doesn't hold any more"
        console.print(f"{made.outdated} {words}")
    done = sum(len(line.runs) for line in made.lines)
    console.print(f"{done} runs; page: {escape(str(home / 'index.html'))}")


def _words(line: Line, *, compares: bool) -> list[str]:
    place = line.place
    if place.lacks:
        return [place.row, place.column, "n/a", place.lacks, "", ""]
    broken = ", ".join(f"{law} {share}" for law, share in line.laws.items() if share.invalid)
    unknown = [law for law, share in line.laws.items() if share.unknown and not share.judged]
    found = broken or (f"not decided: {', '.join(unknown)}" if unknown else "none" if line.runs else "")
    surprising = "; ".join(line.surprises) if line.runs and not compares else ""
    found = "; ".join(filter(None, (surprising and f"NOT AS EXPECTED: {surprising}", found, line.permitted)))
    times = [str(one) if one else "" for one in (line.without, line.recovery)]
    return [place.row, place.column, f"{len(line.runs)} of {place.wanted}", found, *times]


def _show_faults(made: Table) -> None:
    shown = Shown(box=None, pad_edge=False, show_edge=False)
    for title in ("s without service after a fault, p50 / max", *made.columns):
        shown.add_column(escape(title), overflow="fold")
    for fault, by_column in made.faults.items():
        shown.add_row(escape(fault), *(str(by_column.get(column, "")) for column in made.columns))
    _console.out().print(shown)


def _worst(made: Table, failed: Sequence[str], no_loss_by_policy: bool) -> int:
    codes = [_code(line, note, no_loss_by_policy) for line in made.lines for note in line.runs]
    codes += [ExitCode.ERROR] * bool(failed) + [ExitCode.INVALID] * any(line.in_vain for line in made.lines)
    return worst_code(codes)


def _code(line: Line, note: Note, no_loss_by_policy: bool) -> int:
    """Return the exit code with which ``run`` would have ended; that of a VALID run for what its experiment is made to
    break."""
    from stormproof.outcome import NOT_RECOVERED

    if no_loss_by_policy and note.by_policy:  # it may have been noted without
        return ExitCode.INVALID
    if note.verdict == "VALID" or line.place.is_expected(note):
        return ExitCode.VALID
    if note.verdict == "UNKNOWN":
        return ExitCode.UNKNOWN
    return ExitCode.NOT_RECOVERED if set(note.anomalies) == {NOT_RECOVERED} else ExitCode.INVALID
