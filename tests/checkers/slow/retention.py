"""Retention, segment by segment and deletion by deletion: the oracle of :mod:`checkers._facts.retention`. It
gives no explanations: these are the kernels' own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers._facts.retention import EARLY_RETENTION
from tests.checkers.slow.plain import Row, some


@dataclass(frozen=True, slots=True)
class Version:
    """A manifest of a queue that the store took: ``sizes`` are the bytes of its segments, by their first offset."""

    row: Row
    number: int
    start: int
    sizes: dict[int, int]

    @classmethod
    def of(cls, row: Row) -> Version:
        reported: dict[str, Any] = row.value.get("content") or {}
        sizes = {int(part["base"]): int(part["bytes"]) for part in reported.get("segments") or ()}
        return cls(row, int(row.value.get("version", -1)), int(reported.get("start", 0)), sizes)

    @property
    def end(self) -> int:
        return self.row.offset


def versions(rows: Rows) -> dict[int, list[Version]]:
    """Those of each queue, the oldest first."""
    found: dict[int, list[Version]] = {}
    for row in some(rows, "trace", "store_cas"):
        if row.queue >= 0 and row.value.get("outcome") == "applied":
            found.setdefault(row.queue, []).append(Version.of(row))
    return {queue: sorted(every, key=lambda one: (one.number, one.row.at)) for queue, every in found.items()}


def lawful_floor(rows: Rows, context: RunContext, queue: int, found: Findings | None = None) -> tuple[int, bool]:
    """The offset below which nothing need be there any more, and whether the history says so: where the tier's manifest
    was trimmed to by its rule, or, without a tier, what replicas deleted. ``found`` gets the other trims."""
    manifests = rows.memo(versions).get(queue)
    if manifests is None:
        minimums = [row.value.get("minimums") or {} for row in some(rows, "trace", "retention")]
        lives = some(rows, "trace", "start", "recovered", "role", "retention")
        return max([0, *(int(reported.get(str(queue), 0)) for reported in minimums)]), (
            Evidence.RETENTION in context.evidence and bool(lives)
        )
    floor, is_known, before = 0, True, manifests[0]
    for after in manifests[1:]:
        if after.start > before.start:
            to_keep = _to_keep(rows, queue, after.number)
            if to_keep is None:
                is_known = False
            elif _may_begin(before, after, to_keep):
                floor = max(floor, after.start)
            elif found is not None:
                _add(found, before.row, after.row, queue=queue, offset=after.start)
        before = after
    return floor, is_known


def _to_keep(rows: Rows, queue: int, number: int) -> int | None:
    """Return how many bytes the uploader of this version had to keep; None where its commit does not say."""
    commits = [
        row for row in some(rows, "trace", "tier_commit") if row.queue == queue and row.number("version") == number
    ]
    reported = commits[-1].value.get("retain_bytes") if commits else None
    return reported if isinstance(reported, int) else None


def _may_begin(before: Version, after: Version, to_keep: int) -> bool:
    """The oldest segment goes as long as more is there than must be kept (0: everything), and one stays."""
    left = dict(sorted(before.sizes.items()))
    gone = [base for base in left if base < after.start]
    for base in gone:
        if not 0 < to_keep < sum(left.values()):
            return False
        del left[base]
    return bool(gone and after.sizes)


def examine(rows: Rows, context: RunContext, found: Findings) -> None:
    """Each deletion of a local log, in the order of recording, against the replica's own options and the tier; and each
    trim of a manifest."""
    for queue in rows.memo(versions):
        lawful_floor(rows, context, queue, found)
    own = {int(queue) for queue in rows.column("queue").tolist()}
    for deletion in some(rows, "trace", "retention"):
        if not _is_optional(deletion):
            _add(found, deletion)
        if Evidence.TIER not in context.evidence:
            continue
        tiered = bool((deletion.value.get("inputs") or {}).get("tiered"))
        for text, minimum in sorted((deletion.value.get("minimums") or {}).items()):
            queue = int(text)
            if queue in rows.memo(versions) or (tiered and queue in own):
                _held_by_tier(rows, context, found, deletion, queue, int(minimum))


def _held_by_tier(rows: Rows, context: RunContext, found: Findings, deletion: Row, queue: int, minimum: int) -> None:
    """What is deleted of a queue must be in the tier by then; by the end of the run, where nodes have own clocks."""
    there = rows.memo(versions).get(queue, [])
    there = [one for one in there if not context.one_clock or one.row.index < deletion.index]
    widest = max(there, key=lambda one: (one.end, -one.number, -one.row.at), default=None)
    held = max(0, widest.end) if widest else 0
    if minimum > held:
        _add(found, *((widest.row,) if widest else ()), deletion, queue=queue, offset=held)


def _is_optional(deletion: Row) -> bool:
    """Whether the replica's options let it delete so much: what no tier has only if that is set, and by size only what
    lies before the last so many bytes of its log."""
    inputs = deletion.value.get("inputs") or {}
    if (inputs.get("tiered"), inputs.get("delete_untiered")) == (False, False):
        return False
    to_keep, end = inputs.get("retain_bytes"), inputs.get("end")
    if not isinstance(to_keep, int) or not isinstance(end, int):
        return True
    if to_keep > 0:
        return deletion.position + to_keep <= end
    return deletion.value.get("rule", "size") != "size"


def _add(found: Findings, *witnesses: Row, queue: int = -1, offset: int = -1) -> None:
    found.add(EARLY_RETENTION, "", *(row.index for row in witnesses), queue=queue, offset=offset)
