"""Does a law keep the contract of :mod:`chaos.law`? For authors to call from their tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa

from chaos.events import field_of
from chaos.history.beginnings import Beginnings
from chaos.history.columns import COLUMNS, INTEGERS, REPEATED, VALUE, WORDS
from chaos.history.ends import with_beginnings, without_beginnings
from chaos.history.prefix import end_of_whole_steps
from chaos.judging.declared import Declared
from chaos.judging.divided import parted, shards
from chaos.judging.engine import judge_rows
from chaos.judging.plan import WHOLE, plan
from chaos.judging.registry import Registry
from chaos.judging.shard import Shard
from chaos.judging.so_far import able
from chaos.kernel import Kernel
from chaos.law import Law, Partial, RowType, RunContext, Undeclared
from chaos.law_declaration import kernel_of
from chaos.verdict import Validity, Verdict

#: So many rows of its own a shard has at most when a history is parted.
PARTED = (1_000_000, 200, 1)
#: About so many prefixes of each history are judged.
PREFIXES = 12


def history_of(rows: Iterable[tuple[RowType, Mapping[Any, object]]]) -> pa.Table:
    """Return a history with these rows, in this order: each is a class of rows, and its fields that are not empty:
    ``(Send, {Send.type: "ok", Send.queue: 0})``. Raises ``ValueError`` for what is no field of the class."""
    columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
    for index, (cls, fields) in enumerate(rows):
        row: dict[str, object] = {"index": index, "kind": cls.kind, "f": cls.f}
        value: dict[str, object] = {}
        for declared, content in fields.items():
            field = field_of(declared)
            if field is None or field.owner is not cls:
                raise ValueError(f"{declared!r} is no field of {cls.__name__}")
            (row if field.name in COLUMNS else value)[field.name] = content
        row[VALUE] = json.dumps(value) if value else ""
        for name, column in columns.items():
            column.append(row.get(name, -1 if name in INTEGERS else ""))
    types = {name: pa.int64() if name in INTEGERS else pa.string() for name in COLUMNS}
    arrays = {name: pa.array(column, types[name]) for name, column in columns.items()}
    table = pa.table({name: one.dictionary_encode() if name in WORDS else one for name, one in arrays.items()})
    return Beginnings().repeat(table)


def check_law(
    law: Law | Kernel | Sequence[Law | Kernel],
    *,
    bad: Sequence[tuple[pa.Table, Sequence[str]]],
    near_miss: Sequence[pa.Table],
    context: RunContext,
    parted: bool = True,
) -> None:
    """Hold a law, or all kernels of one, to its contract; raises ``AssertionError`` with the first breach.

    ``bad`` are histories with the names of the anomalies that must be found in each, and no others that are violations;
    ``near_miss`` are histories that look alike and are VALID. Tables have the columns of :mod:`chaos.history.columns`,
    with ``index`` ascending from 0. A history without rows and a damaged one are not VALID; a history gives one verdict
    in one piece and in shards (unless ``parted`` is False), in whatever bracket the partials are merged; and no kernel
    reads rows or columns that it does not declare. What kernels that may be asked about a prefix of a run find there is
    found in the whole run, too.
    """
    bad, near_miss = [(_ends(table), names) for table, names in bad], [*map(_ends, near_miss)]
    laws = tuple(law) if isinstance(law, Sequence) else (law,)
    kernels = tuple(kernel_of(one) if isinstance(one, Law) else one for one in laws)
    known = Registry({("law", number): one for number, one in enumerate(kernels)}, {})
    for number, (table, names) in enumerate(bad):
        verdict = _judge(known, [(WHOLE, table)], context)
        found = {anomaly.name for anomaly in verdict.anomalies if not anomaly.lawful}
        assert verdict.validity is Validity.INVALID, f"bad history {number} is {verdict.validity}: {verdict.why}"
        assert found == set(names), f"bad history {number} shows {sorted(found)}, not {sorted(names)}"
    for number, table in enumerate(near_miss):
        verdict = _judge(known, [(WHOLE, table)], context)
        assert verdict.validity is Validity.VALID, f"near miss {number} is {verdict.validity}: {verdict}"
        damaged = _judge(known, [(WHOLE, table)], replace(context, damage=("a batch is torn",)))
        assert damaged.validity is Validity.UNKNOWN, f"near miss {number}, torn, is {damaged.validity}"
    tables = [*(table for table, _ in bad), *near_miss]
    for table in tables:
        for kernel in kernels:
            _check_reads(kernel, table, context)
        _check_prefixes(known, table, context)
        if parted:
            _check_parts(known, table, context)
    empty = _judge(known, [(WHOLE, tables[0].slice(0, 0))], context)
    assert empty.validity in (Validity.UNKNOWN, Validity.NOT_APPLICABLE), f"a history without rows is {empty.validity}"
    assert _judge(known, [], context).validity is Validity.UNKNOWN, "a run without shards is not UNKNOWN"


def _ends(table: pa.Table) -> pa.Table:
    """Return rows as laws are given them, whether their ends repeat what began them or not."""
    repeating = table if set(REPEATED) <= set(table.column_names) else Beginnings().repeat(table)
    return without_beginnings(repeating)[0]


def _judge(known: Registry, tables: Sequence[tuple[str, pa.Table | Shard]], context: RunContext) -> Verdict:
    (verdict,) = judge_rows(tables, context, known)
    return verdict


def _check_reads(kernel: Kernel, table: pa.Table, context: RunContext) -> None:
    """Check that what a kernel finds does not change when all that it doesn't declare is gone, and that it never asks
    for that."""
    try:
        strict = kernel.examine(Declared(Shard(table), kernel.needs, strict=True), context)
    except Undeclared as error:
        raise AssertionError(f"{type(kernel).__name__}: {error}") from error
    parts = parted([table], plan({("law", 0): kernel}, context.meta), most=max(1, table.num_rows))
    alone = pa.concat_tables([rows for _, rows in parts]).unify_dictionaries()
    assert _same(strict, kernel.examine(Declared(Shard(alone), kernel.needs), context)), (
        f"{type(kernel).__name__} finds something else where only the rows are that it declares"
    )


def _check_prefixes(known: Registry, table: pa.Table, context: RunContext) -> None:
    """Check that, no matter how far a run is, nothing is reported that its rest excuses. Rows of one operation come
    together."""
    asked = able(known)
    if not asked.kernels:
        return
    whole = _violations(_judge(asked, [(WHOLE, table)], context))
    table = with_beginnings(table)[0].sort_by("index")
    op = table["op"].to_numpy()
    ends = [end for end in range(1, table.num_rows) if op[end] != op[end - 1] or op[end] < 0]
    for end in (*ends[:: max(1, len(ends) // PREFIXES)], table.num_rows):
        prefix = _ends(table.slice(0, end_of_whole_steps(table.slice(0, end))))
        found = _violations(_judge(asked, [(WHOLE, prefix)], replace(context, unfinished=True)))
        assert found <= whole, (
            f"after {end} rows it reports {sorted(found - whole)}, which the whole history doesn't show"
        )


def _violations(verdict: Verdict) -> set[str]:
    return {anomaly.name for anomaly in verdict.anomalies if not anomaly.lawful}


def _check_parts(known: Registry, table: pa.Table, context: RunContext) -> None:
    whole = _judge(known, [(WHOLE, table)], context)
    for most in PARTED:
        parts = list(shards([table], plan(known.kernels, context.meta), most))
        assert _judge(known, parts, context) == whole, f"in {len(parts)} shards the verdict is another one"
        for kernel in known.kernels.values():
            found = [kernel.examine(Declared(rows, kernel.needs), context) for _, rows in parts]
            left, right = reduce(Partial.merge, found), reduce(lambda late, early: early.merge(late), found[::-1])
            assert _same(left, right), f"the partials of {type(kernel).__name__} depend on how they are merged"


def _same(one: Partial, other: Partial) -> bool:
    def fields(partial: Partial) -> Mapping[str, object]:
        return {
            "counts": dict(partial.counts),
            "anomalies": list(partial.anomalies),
            "facts": list(partial.facts),
            "gaps": list(partial.gaps),
            "not_owed": partial.not_owed,
            "deferred": list(partial.deferred),
        }

    return fields(one) == fields(other)
