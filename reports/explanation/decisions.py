"""Which rows are themselves what broke a promise, as the laws declare that in their own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.history.history import History
from chaos.history.row import Row
from chaos.judging.registry import registry
from chaos.law import RowType
from chaos.ops import OpType
from chaos.verdict import Anomaly


@dataclass(frozen=True, slots=True)
class Decision:
    """What a law says of a row. ``sentence``: its own; ``name``: by which a driver knows who decides that
    (:data:`chaos.driver.DECIDED_BY`)."""

    name: str
    sentence: str


def is_decision(violation: str) -> bool:
    """Return whether laws declare which row is the decision, of those that they name of this kind of violation."""
    return bool(_classes(violation))


def decisions(found: Sequence[Anomaly], history: History) -> Mapping[int, Decision]:
    """Return the rows that are decisions, by number, of these violations."""
    declared = [anomaly for anomaly in found if is_decision(anomaly.name)]
    rows = {row.index: row for row in history.numbered({row for anomaly in declared for row in anomaly.rows})}
    decided: dict[int, Decision] = {}
    for anomaly in declared:
        own = [rows[row] for row in anomaly.rows if row in rows and _is_of(rows[row], _classes(anomaly.name))]
        if own:
            decided.setdefault(own[-1].index, Decision(anomaly.name, anomaly.explanation))
    return decided


def unplaced(anomaly: Anomaly, rows: Sequence[Row]) -> tuple[Row | None, str]:
    """Return the answer that no order can place, if it is the same one wherever every order gets stuck, and why it
    can't be placed."""
    named = set(anomaly.rows)
    stuck = [{call for call, _ in end.illegal} for end in anomaly.dead_ends]
    last = max((row.op for row in rows if row.index in named or row.op in named), default=-1)
    if last >= 0 and stuck and all(calls == {last} for calls in stuck):
        placed = next((row for row in reversed(rows) if row.op == last and row.type == "ok"), None)
        return placed, next((why for end in anomaly.dead_ends for _, why in end.illegal), "")
    return None, ""


def _classes(violation: str) -> Sequence[RowType]:
    kinds = (kind for promise in registry().promises for kind in promise.anomalies)
    return next((kind.decision for kind in kinds if kind.name == violation and kind.decision), ())


def _is_of(row: Row, classes: Sequence[RowType]) -> bool:
    """Return whether a node did this, by a row of one of these classes."""
    return (
        bool(row.node)
        and row.type != OpType.INVOKE
        and any(row.kind == one.kind and getattr(one, "f", row.f) == row.f for one in classes)
    )
