"""Retention, row by row. Which offsets of a queue may lawfully be gone, and whether each deletion kept its own rule."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts.retention import EARLY_RETENTION


def versions(rows: Rows) -> dict[int, list[int]]:
    """Queue → rows of the manifest versions that the store has applied, by version."""
    applied: dict[int, list[tuple[int, int]]] = {}
    for at in rows.where(kind="trace", f="store_cas"):
        told = rows.value(at)
        if told.get("outcome") == "applied":
            queue = int(rows.column("queue")[at])
            applied.setdefault(queue, []).append((int(told.get("version", -1)), int(at)))
    return {queue: [at for _, at in sorted(found)] for queue, found in sorted(applied.items())}


def content(rows: Rows, at: int) -> dict[str, Any]:
    """The manifest that a ``store_cas`` or ``manifest`` row carries."""
    found = rows.value(at).get("content") or {}
    return found if isinstance(found, dict) else {}


def lawful_floor(rows: Rows, context: RunContext, queue: int, found: Findings | None = None) -> tuple[int, bool]:
    """The offset below which the system lawfully keeps nothing, and whether the history tells why.

    With a tier it is where a manifest was lawfully trimmed to, and ``found`` learns of unlawful trims; without one, the
    highest minimum that a deletion on the brokers gave.
    """
    manifests = rows.memo(versions).get(queue, [])
    if manifests:
        return _trimmed_to(rows, queue, manifests, found)
    floor = 0
    for at in rows.where(kind="trace", f="retention"):
        minimums = rows.value(at).get("minimums") or {}
        floor = max(floor, int(minimums.get(str(queue), 0)))
    return floor, Evidence.RETENTION in context.evidence and rows.memo(_is_traced)


def _is_traced(rows: Rows) -> bool:
    """Did any replica tell of its life? Then it told of its deletions too."""
    return any(len(rows.where(kind="trace", f=f)) for f in ("start", "recovered", "role", "retention"))


def _trimmed_to(rows: Rows, queue: int, manifests: list[int], found: Findings | None) -> tuple[int, bool]:
    """Recompute each version that begins later than the one before: what it drops must exceed the size to be kept, and
    the newest segment stays, whatever its size."""
    kept_bytes = {
        int(rows.value(at).get("version", -1)): rows.value(at).get("retain_bytes")
        for at in rows.where(kind="trace", f="tier_commit", queue=queue)
    }
    floor, known = 0, True
    for before, after in pairwise(manifests):
        old, new = content(rows, before), content(rows, after)
        start = int(new.get("start", 0))
        if start <= int(old.get("start", 0)):
            continue
        retain = kept_bytes.get(int(rows.value(after).get("version", -1)))
        if not isinstance(retain, int):
            known = False
            continue
        dropped = [part for part in old.get("segments") or () if int(part["base"]) < start]
        left = [part for part in old.get("segments") or () if int(part["base"]) >= start]
        total = sum(int(part["bytes"]) for part in (*dropped[-1:], *left))
        if dropped and 0 < retain < total and new.get("segments"):
            floor = max(floor, start)
            continue
        if found is None:
            continue
        found.add(
            EARLY_RETENTION,
            f"{new.get('writer', 'Somebody')} trimmed the manifest of queue {queue} to begin at offset {start} at "
            f"{facts.at_s(rows, after)}, " + _kept(retain, total),
            int(rows.column("index")[before]),
            int(rows.column("index")[after]),
            queue=queue,
            offset=start,
        )
    return floor, known


def _kept(retain: int, total: int) -> str:
    if retain <= 0:
        return "but must keep everything."
    return f"but must keep {retain} bytes." if retain >= total else "but must keep the newest segment."


def examine(rows: Rows, context: RunContext, found: Findings) -> None:
    """Recompute every deletion of local log: a tiered queue's records are deleted only below the end of a manifest
    that is committed (in a simulated run: by then), and by size only what is beyond the size that is kept; without a
    tier, only where that is set."""
    own = set(np.unique(rows.column("queue")).tolist())
    for at in rows.where(kind="trace", f="retention"):
        told = rows.value(at)
        tiered = bool((told.get("inputs") or {}).get("tiered"))
        _by_option(rows, at, told, found)
        if Evidence.TIER not in context.evidence:
            continue
        for queue_text, minimum in sorted((told.get("minimums") or {}).items()):
            queue = int(queue_text)
            if queue in rows.memo(versions) or (tiered and queue in own):
                _by_tier(rows, context, int(at), queue, int(minimum), found)


def _by_tier(rows: Rows, context: RunContext, at: int, queue: int, minimum: int, found: Findings) -> None:
    index, offset = rows.column("index"), rows.column("offset")
    committed = np.array(rows.memo(versions).get(queue, ()), dtype=np.int64)
    if context.one_clock:
        committed = committed[index[committed] < index[at]]
    covered = int(offset[committed].max(initial=0))
    if minimum > covered:
        witness = committed[np.argmax(offset[committed])] if len(committed) else -1
        found.add(
            EARLY_RETENTION,
            f"{rows.text('node', at)} deleted queue {queue} up to offset {minimum} at {facts.at_s(rows, at)}, but the "
            f"tier held it only up to offset {covered}.",
            int(index[witness]) if witness >= 0 else -1,
            int(index[at]),
            queue=queue,
            offset=covered,
        )


def _by_option(rows: Rows, at: int, told: dict[str, Any], found: Findings) -> None:
    inputs = told.get("inputs") or {}
    kept, end, position = inputs.get("retain_bytes"), inputs.get("end"), int(rows.column("position")[at])
    if inputs.get("tiered") is False and inputs.get("delete_untiered") is False:
        what = "what no tier holds"
    elif not isinstance(kept, int) or not isinstance(end, int):
        return
    elif position > end - kept if kept > 0 else told.get("rule", "size") == "size":
        what = f"the last {kept} bytes of its log" if kept > 0 else "its whole log"
    else:
        return
    found.add(
        EARLY_RETENTION,
        f"{rows.text('node', at)} must keep {what}, but deleted up to position {position} when the log ended at {end}.",
        int(rows.column("index")[at]),
    )
