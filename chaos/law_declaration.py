"""Compiles what a law declares to what the planner knows: which rows stand in which shard, and which columns.

This is the one place between :mod:`chaos.law`, which authors see, and :mod:`chaos.kernel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from chaos.driver import Evidence
from chaos.errors import BadInput
from chaos.events import Event, Field, field_of
from chaos.history.columns import COLUMNS, INTEGERS, VALUE, WORDS
from chaos.kernel import ALWAYS, Kernel, Needs, Reads
from chaos.kernel import Key as KernelKey
from chaos.law import Deferred, Key, Law, Partial, Promise, RowType, RunContext, Undeclared
from chaos.operations import RowClass, fields_of
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from chaos.workload import Use

Positions = npt.NDArray[np.int64]

#: The field that says whose a row is, for laws by this key.
_KEYED_BY: Mapping[Key, str] = {Key.QUEUE: "queue", Key.GROUP: "group", Key.OBJECT: "object"}
#: The kinds of rows that are a node's own.
_OF_NODES = ("trace", "poll", "final")
#: The kinds of rows that are about the whole run.
_OF_RUN = ("harness", "fault")
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def needs_of(
    reads: Iterable[object],
    key: Key,
    *,
    evidence: Sequence[Evidence] = (Evidence.OPERATIONS,),
    uses: Sequence[Use] = (),
    part: str = "",
    on_prefix: bool = False,
) -> Needs:
    """Return what a declaration comes to: each shard gets the rows of its own keys, and all rows that can't have one.
    Raises :class:`BadInput` for what is no class of rows, and no field of one."""
    found: dict[RowType, set[str]] = {}
    for one in reads:
        cls, names = _declared(one)
        found.setdefault(cls, set()).update(names)
    if not found:
        raise BadInput("it reads nothing: `reads` is empty")
    by_kind: dict[tuple[str, bool], list[str]] = {}
    for cls in found:
        by_kind.setdefault((cls.kind, not _has_key(cls, key)), []).append(cls.f)
    return Needs(
        key=KernelKey(Key(key)),
        rows=tuple(
            Reads(kind=kind, f=() if "" in names else tuple(names), everywhere=everywhere)
            for (kind, everywhere), names in by_kind.items()
        ),
        columns=tuple(sorted({_column(name) for names in found.values() for name in names} - {*ALWAYS})),
        evidence=tuple(evidence),
        uses=tuple(uses),
        part=part,
        on_prefix=on_prefix,
    )


def _declared(one: object) -> tuple[RowType, Iterable[str]]:
    """Return the class of rows that is meant, and the fields of it that are read."""
    if (field := field_of(one)) is not None:
        return field.owner, (field.name,)
    if isinstance(one, type) and issubclass(one, (Event, RowClass)) and hasattr(one, "f"):
        return one, fields_of(one)
    raise BadInput(f"it reads {one!r}, which is no class of rows (chaos.events, chaos.operations), and no field of one")


def _column(name: str) -> str:
    return name if name in COLUMNS else VALUE


def _has_key(cls: RowType, key: Key) -> bool:
    """Return whether a row of this class can be one of a single queue, node, group or object; of the run all are."""
    if cls.kind in _OF_RUN:
        return False
    if key == Key.NODE:
        return cls.kind in _OF_NODES
    return key == Key.RUN or _KEYED_BY[key] in fields_of(cls)


class DeclaredRows:
    """Implements :class:`chaos.law.Rows` over the rows of a shard."""

    def __init__(self, rows: Rows, run: RunContext, classes: frozenset[RowType]) -> None:
        self._rows, self._run, self._classes = rows, run, classes

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def run(self) -> RunContext:
        return self._run

    @property
    def columns(self) -> Rows:
        return self._rows

    def of(self, rows: RowType, equals: Mapping[Any, object] | None = None) -> Positions:
        self._check(rows)
        kind, f = rows.kind, rows.f
        fields = {self._field(one, rows).name: value for one, value in (equals or {}).items()}
        direct: dict[str, Any] = {name: value for name, value in fields.items() if name in (*INTEGERS, *WORDS)}
        at = self._rows.where(kind=kind, f=f, **direct) if f else self._rows.where(kind=kind, **direct)
        for name, value in fields.items():
            if name not in direct:
                at = at[np.array([self._rows.value(row).get(name) == value for row in at.tolist()], dtype=np.bool_)]
        return at

    def values(self, field: object, at: Positions) -> npt.NDArray[Any]:
        one = self._field(field)
        if one.name in INTEGERS:
            column: npt.NDArray[np.int64] = self._rows.column(one.name)[at]
            return column
        if one.name in WORDS:
            return _objects(self._rows.text(one.name, row) for row in at.tolist())
        found = (self._rows.value(row).get(one.name) for row in at.tolist())
        hint = _hint(one)
        if hint == "int":
            return np.array([_whole(value) for value in found], dtype=np.int64)
        return _objects(str(value or "") for value in found) if hint == "str" else _objects(found)

    def _field(self, declared: object, owner: RowType | None = None) -> Field:
        field = field_of(declared)
        if field is None or (owner is not None and field.owner is not owner):
            raise Undeclared(f"it asks for {declared!r}, which is no field of {owner.__name__ if owner else 'rows'}")
        self._check(field.owner)
        return field

    def _check(self, cls: RowType) -> None:
        if cls not in self._classes:
            raise Undeclared(f"it asks for rows {cls.__name__}, which it does not declare to read")


def _hint(field: Field) -> str:
    """Return the type that is declared for a field, as its class writes it: ``int``, say."""
    for base in field.owner.__mro__:
        written = vars(base).get("__annotations__", {}).get(field.name)
        if written is not None:
            return str(written).removeprefix("Annotated[").partition(",")[0].partition(" ")[0]
    return ""


def _whole(value: object) -> int:
    """Return a whole number, or the nearest that a column can hold; -1 for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        return -1
    return max(_LEAST, min(value, _MOST))


def _objects(values: Iterable[Any]) -> npt.NDArray[Any]:
    every = list(values)
    found = np.empty(len(every), dtype=object)
    found[:] = every
    return found


def declared_rows(rows: Rows, run: RunContext, reads: Iterable[object]) -> DeclaredRows:
    """Return the rows of a shard as what declares these ``reads`` may see them."""
    return DeclaredRows(rows, run, frozenset(_declared(one)[0] for one in reads))


@dataclass(frozen=True, slots=True)
class Compiled:
    """A law as a kernel."""

    law: Law
    needs: Needs

    @property
    def promise(self) -> Promise:
        return self.law.promise

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        return self.law.examine(declared_rows(rows, context, self.law.reads))

    def settle(self, deferred: Deferred) -> Partial:
        return self.law.settle(deferred)

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        if partial.not_owed is None:
            partial = replace(partial, not_owed=_not_used(self.needs, context))
        return self.law.judge(partial)


def _not_used(needs: Needs, context: RunContext) -> str:
    """Return why nothing is owed of a law in this run; "" where it is."""
    if not needs.uses or context.uses & {*needs.uses}:
        return ""
    return f"no workload uses {' or '.join(map(str, needs.uses))}"


def kernel_of(law: Law) -> Kernel:
    """Compile a law. Raises :class:`BadInput` for a declaration that means nothing."""
    for name in ("promise", "key", "reads"):
        if not hasattr(law, name):
            raise BadInput(f"{type(law).__name__} does not declare `{name}`")
    try:
        key = Key(law.key)
    except ValueError as error:
        raise BadInput(f"{type(law).__name__}: key: {error}; known: {', '.join(Key)}") from error
    try:
        needs = needs_of(law.reads, key, evidence=law.evidence, uses=law.uses, part=law.part, on_prefix=law.on_prefix)
    except BadInput as error:
        raise BadInput(f"{type(law).__name__}: {error}") from error
    return Compiled(law, needs)
