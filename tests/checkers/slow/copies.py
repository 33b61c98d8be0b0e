"""What acknowledgements stood on, row after row: the oracle of ``checkers/durability/copies.py``."""

from __future__ import annotations

from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers.durability.copies import UNREPORTED
from checkers.durability.promise import FALSE_ACKNOWLEDGEMENT

Found = tuple[list[tuple[str, int]], set[str], int]


def examine(rows: Rows, context: RunContext) -> Found:
    """The name and the row of each anomaly, what nobody knows, and how many acknowledgements were compared."""
    wrong: list[tuple[str, int]] = []
    unknown: set[str] = set()
    compared = 0
    if context.strict:
        return wrong, unknown, compared
    ever = _furthest(rows, context)
    now: dict[str, int] = {}
    for at in range(len(rows)):
        if rows.text("kind", at) != "trace":
            continue
        if rows.text("f", at) != "acked":
            _take(rows, context, at, now)
            continue
        copies, position = rows.value(at).get("copies"), int(rows.column("position")[at])
        acks = context.profile.acks
        if not isinstance(copies, dict):
            unknown |= {UNREPORTED} if acks not in ("all", "master") else set()
            continue
        compared += 1
        unknown |= {f"{one}, on which acknowledgements stood, reported nothing of its log" for one in copies} - {
            f"{one}, on which acknowledgements stood, reported nothing of its log" for one in ever
        }
        known = now if context.one_clock else ever
        having = [one for one in copies if one not in ever or known.get(one, -1) >= position]
        demanded = 1 if acks == "master" else max(1, len(copies)) if acks == "all" else int(acks)
        if len(having) < demanded:
            wrong.append((FALSE_ACKNOWLEDGEMENT, int(rows.column("index")[at])))
    return wrong, unknown, compared


def _furthest(rows: Rows, context: RunContext) -> dict[str, int]:
    """Node → the furthest that it ever went."""
    now: dict[str, int] = {}
    ever: dict[str, int] = {}
    for at in range(len(rows)):
        if rows.text("kind", at) == "trace" and _take(rows, context, at, now):
            node = rows.text("node", at)
            ever[node] = max(ever.get(node, -1), now[node])
    return ever


def _take(rows: Rows, context: RunContext, at: int, now: dict[str, int]) -> bool:
    """Follow one row of a replica: a cut brings its end down, all else only raises it. Whether it tells of an end."""
    f, node, position = rows.text("f", at), rows.text("node", at), int(rows.column("position")[at])
    end = now.get(node, -1)
    if f == "truncate":
        now[node] = min(end, position)
    elif f in ("recovered", "bootstrap") or (f == "synced" and context.profile.flush == "sync"):
        now[node] = max(end, position)
    elif f == "append" and context.profile.flush == "async":
        now[node] = max(end, position + max(1, int(rows.value(at).get("size", -1))))
    else:
        return False
    return True
