"""The grammar of a matrix: which experiments are its rows, which systems its columns, and how often each is run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, Strict, WithJsonSchema

from chaos import plugins
from chaos.errors import BadInput
from chaos.experiment import checks, source
from chaos.experiment.forms import Filled, Form, Listed, Mistake, OneOf, Within, validated
from chaos.experiment.options import Plugin
from chaos.plugins import PluginKind, nearest

#: Runs of each cell of a file that says nothing else.
RUNS = 3
Runs = Annotated[int, Strict(), Within(range(1, 1_001))]
Deployment = Annotated[str, OneOf("deployment", partial(plugins.names, PluginKind.DEPLOYMENT))]


def _system(given: Any) -> Mapping[str, Mapping[str, Any]]:
    """Return the one driver with the options that the column sets, which must be good by themselves."""
    use = Plugin(PluginKind.DRIVER, draws=True).read(given)
    options = given[use.name] if isinstance(given, dict) else None
    return {use.name: options or {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEntry(Form):
    """Some rows: the files of ``experiments`` (paths or patterns, from the folder of the matrix) but those of
    ``except``, each to be run ``runs`` times (None: as often as the file says)."""

    experiments: Filled[str]
    without: Annotated[Listed[str], Field(alias="except")] = ()
    runs: Runs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Form):
    """One system. ``system`` takes the place of the experiments' own; None: each is run on its own. Where it has the
    same driver, its options go over those of the experiment; where it has another one, the experiment's options are
    that driver's, but for those of ``without``. ``rows``: for these alone, by name or pattern; none: for all.
    ``lacks``: rows that make no sense there, each with what the system lacks, in words. ``runs`` comes before that of a
    row."""

    name: Annotated[str, AfterValidator(checks.name)]
    system: Annotated[Any, AfterValidator(_system), WithJsonSchema({"type": ["string", "object"]})] = None
    without: Listed[str] = ()
    rows: Listed[str] = ()
    lacks: Annotated[Mapping[str, str], Strict()] = field(default_factory=dict)
    runs: Runs | None = None
    on: Deployment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Form):
    """What the file of a matrix says. ``on`` is the deployment."""

    name: Annotated[str, AfterValidator(checks.name)] = ""
    on: Deployment = "sim"
    runs: Runs = RUNS
    rows: Filled[RowsEntry]
    columns: Filled[Column]

    @classmethod
    def problems(cls, given: dict[str, Any]) -> list[Mistake]:
        columns = given.get("columns")
        names = [one.get("name") for one in columns if isinstance(one, dict)] if isinstance(columns, list) else []
        twice = [name for number, name in enumerate(names) if name in names[:number]]
        return [(("columns",), f"two columns are called {twice[0]!r}")] if twice else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An experiment: its ``name`` is that of its file, with the folder before it in a matrix where two files have the
    same. ``runs`` is None where the row says nothing."""

    name: str
    path: Path
    runs: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A valid matrix."""

    name: str
    on: str
    runs: int
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]

    @property
    def compares(self) -> bool:
        """Whether some column has a system of its own; else each shows the experiments as they are."""
        return any(column.system is not None for column in self.columns)

    def runs_of(self, row: Row, column: Column) -> int:
        """Return how often this cell is to be run; 0 for one that isn't in the matrix."""
        if column.rows and not fits(row.name, column.rows):
            return 0
        return column.runs or row.runs or self.runs


def fits(name: str, patterns: Sequence[str]) -> bool:
    """Return whether one of these patterns stands for the name of a row."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def load(path: Path) -> Matrix:
    """Read and check the file of a matrix. Raises :class:`BadInput` that holds every problem found."""
    file = validated(File, source.read(path))
    problems: list[str] = []
    rows = _rows(path, file, problems)
    names = [row.name for row in rows]
    for column in file.columns:
        unknown = [name for name in column.lacks if name not in names]
        unknown += [pattern for pattern in column.rows if not any(fits(name, [pattern]) for name in names)]
        problems += [f"{path}: column {column.name}: no row is called {name!r}; {nearest(name, names)}"
                     for name in unknown]  # fmt: skip
    if problems:
        raise BadInput(*problems)
    return Matrix(name=file.name or checks.name_of(path), on=file.on, runs=file.runs, rows=rows, columns=file.columns)


def _rows(path: Path, file: File, problems: list[str]) -> tuple[Row, ...]:
    """Return the rows in the order of the file. An experiment that an earlier entry has is no row once more."""
    found: dict[Path, int | None] = {}
    for entry in file.rows:
        left_out = {one for pattern in entry.without for one in _fitting(path, pattern, problems)}
        named = [one for pattern in entry.experiments for one in _fitting(path, pattern, problems)]
        for one in (one for one in named if one not in left_out):
            found.setdefault(one, entry.runs)
    is_alone = len({one.stem for one in found}) == len(found)
    rows: dict[str, Row] = {}
    for one, runs in found.items():
        name = one.stem if is_alone else f"{one.resolve().parent.name}/{one.stem}"
        known = rows.setdefault(name, Row(name=name, path=one, runs=runs))
        if known.path != one:
            problems.append(f"{path}: two experiments are called {name}: {known.path} and {one}")
    return tuple(rows.values())


def _fitting(path: Path, pattern: str, problems: list[str]) -> list[Path]:
    """Return the files that a pattern names, in alphabetical order; never the matrix itself."""
    try:
        found = sorted(one for one in path.parent.glob(pattern) if one.is_file() and not one.samefile(path))
    except (ValueError, NotImplementedError, OSError) as error:
        problems.append(f"{path}: {pattern!r} is no pattern of files in its folder: {error}")
        return []
    if not found:
        problems.append(f"{path}: no experiment fits {pattern!r} in {path.parent}")
    return found
