"""The cells of a matrix: for each row and column the experiment that is run there, or why it can't be."""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from chaos import guarded
from chaos.errors import BadInput, MachineError
from chaos.experiment import reader, source
from chaos.experiment.model import Experiment
from chaos.plugins import PluginKind, options_class
from chaos.plugins import load as load_plugin
from chaos.recipe import MISSING
from chaos.verdict import Validity
from reports.matrix.note import Note, digest_of
from stormproof.matrix.file import Column, Matrix, Row, fits

EXPERIMENTS = "experiments"
#: All that one of these says of an experiment is that its system has to be installed first.
HEADER = "# {original} with the system of column {column} of a matrix; made again each time.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """``file``: what is run, and ``document``: what it says. ``experiment`` is None where it can't be run: ``lacks``
    says what its system lacks, or ``uninstalled`` what has to be installed first."""

    row: str
    column: str
    on: str
    runs: int
    file: Path
    document: Any
    experiment: Experiment | None = None
    lacks: str = ""
    uninstalled: str = ""

    @property
    def violates(self) -> tuple[str, ...]:
        """The laws that its runs are made to break."""
        given = self.document.get("violates") or ()
        return (given,) if isinstance(given, str) else tuple(given)

    @property
    def digest(self) -> str:
        return digest_of(self.document)


def cells(matrix: Matrix, home: Path) -> list[Cell]:
    """Return all cells, row by row; experiments that differ from their files are written into ``home``. Raises
    :class:`BadInput` for experiments that are wrong by themselves."""
    if wrong := [one for row in matrix.rows for one in _mistakes(row.path, matrix.on)]:
        raise BadInput(*wrong)
    documents = {row.name: source.read(row.path).root for row in matrix.rows}
    return [
        _cell(matrix, row, column, documents[row.name], home)
        for row in matrix.rows
        for column in matrix.columns
        if matrix.runs_of(row, column)
    ]


def chosen(cells: Iterable[Cell], rows: Sequence[str], columns: Sequence[str], most: int | None) -> list[Cell]:
    """Return those of these rows and columns (all, where none is named), each to be run ``most`` times at most."""
    found = [one for one in cells if (not rows or fits(one.row, rows)) and (not columns or one.column in columns)]
    return [replace(one, runs=min(one.runs, most)) for one in found] if most else found


def jobs(cells: Iterable[Cell], notes: Sequence[Note], *, again: bool = False) -> list[tuple[Cell, int]]:
    """Return what is left to run, also where something has to be installed first: cells with their seeds, the first
    seed of all cells first. ``again``: also those that were UNKNOWN."""
    decided = [note for note in notes if not again or note.verdict != Validity.UNKNOWN]
    known = {(note.row, note.column, note.on, note.digest, note.seed) for note in decided}
    able = [cell for cell in cells if not cell.lacks]
    return [
        (cell, seed)
        for seed in range(max((cell.runs for cell in able), default=0))
        for cell in able
        if seed < cell.runs and (cell.row, cell.column, cell.on, cell.digest, seed) not in known
    ]


def _mistakes(path: Path, deployment: str) -> list[str]:
    """Return what is wrong with an experiment by itself; not that its own system isn't installed here."""
    try:
        reader.load(path, deployment=deployment)
    except BadInput as error:
        return [one for one in error.problems if not _uninstalled([one], path)]
    return []


def _uninstalled(problems: Sequence[str], file: Path) -> str:
    """Return which of these problems is that something has to be installed first; "" when none is."""
    return next((_without_place(one, file) for one in problems if MISSING in one), "")


def _cell(matrix: Matrix, row: Row, column: Column, document: Any, home: Path) -> Cell:
    changed, file = with_system(document, column), row.path
    if changed != document:
        file = home / EXPERIMENTS / f"{row.name}-{column.name}.yaml"
        _write(file, {**changed, "name": f"{document.get('name', row.name)}-{column.name}"}, row, column)
    cell = Cell(
        row=row.name,
        column=column.name,
        on=column.on or matrix.on,
        runs=matrix.runs_of(row, column),
        file=file,
        document=changed,
        lacks=column.lacks.get(row.name) or _foreign(changed, column),
    )
    if cell.lacks:
        return cell
    try:
        return replace(cell, experiment=reader.load(file, deployment=cell.on))
    except BadInput as error:
        if asked := _uninstalled(error.problems, file):
            return replace(cell, uninstalled=asked)
        return replace(cell, lacks="; ".join(dict.fromkeys(_without_place(one, file) for one in error.problems)))


def _without_place(problem: str, file: Path) -> str:
    """Return a problem without the file and the line that it begins with."""
    return re.sub(rf"^{re.escape(str(file))}:\d+: ", "", problem)


def with_system(document: Any, column: Column) -> Any:
    """Return the document of an experiment with the system of a column."""
    if column.system is None:
        return document
    own = document["system"]
    driver, options = (own, {}) if isinstance(own, str) else next(iter(own.items()))
    ((name, given),) = column.system.items()
    kept = options or {}
    if name != driver:
        kept = {key: value for key, value in kept.items() if key not in column.without}
    merged = {**kept, **given}
    return {**copy.deepcopy(document), "system": {name: merged} if merged else name}


def _foreign(document: Any, column: Column) -> str:
    """Return what the column's system has no option for, by name; "" when it has all."""
    if column.system is None:
        return ""
    ((name, _),) = column.system.items()
    given = document["system"][name] if isinstance(document["system"], dict) else {}
    known = {one.name for one in fields(options_class(load_plugin(PluginKind.DRIVER, name)))}
    unknown = [f"`{key}`" for key in given if key not in known]
    return f"{name} has no {', '.join(unknown)}" if unknown else ""


def _write(file: Path, document: Any, row: Row, column: Column) -> None:
    text = io.StringIO(HEADER.format(original=row.path.name, column=column.name))
    text.seek(0, io.SEEK_END)
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False
    yaml.dump(document, text)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        guarded.replace(file, text.getvalue().encode())
    except OSError as error:
        raise MachineError(f"cannot write {file}: {error.strerror or error}") from error
