"""Which offsets of a queue are allowed to be gone, and whether each deletion kept its own rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from sys import intern
from typing import Any, NamedTuple

import numpy as np

from chaos.driver import Evidence
from chaos.fault import Effect
from chaos.findings import Findings
from chaos.kernel import Lookup, Reads
from chaos.law import RunContext
from chaos.shard_rows import Form, Rows
from checkers import _facts as facts
from checkers._facts.arrays import Flags, Ints, distinct, places_in
from checkers._facts.manifests.restored import Manifests
from checkers._facts.manifests.segments import Named
from checkers._facts.storage import trims

#: Something was deleted, or said to be, that had to be kept; a name of the law about durability.
EARLY_RETENTION = "early-retention"
#: An uploader's clock has counted so much of the time that a store's rows show, where no fault skews it.
CLOCKS_AGREE = 0.9
#: The rule by which a replica keeps so many bytes of its log.
BY_SIZE = "size"


class Header(NamedTuple):
    """What a ``store_cas`` row says of a manifest besides its segments, whatever that is. ``number`` is the version
    that the store names, ``version`` the manifest's own where the store names none; ``trimmed_to`` is ``start``, or 0
    where it is not reported."""

    is_applied: bool
    number: Any
    version: Any
    start: Any
    trimmed_to: Any
    confirm: Any
    writer: str

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Header:
        content = header(value)
        return cls(
            is_applied=_is_applied(value),
            number=value.get("version", -1),
            version=value.get("version", content.get("version", -1)),
            start=content.get("start", -1),
            trimmed_to=content.get("start", 0),
            confirm=content.get("confirm", -1),
            writer=intern(str(content.get("writer") or value.get("caller", ""))),
        )


def manifest_rows(rows: Rows) -> Ints:
    """Return the ``store_cas`` rows that are about manifests: a compare-and-set of another object names no queue."""
    at = rows.where(kind="trace", f="store_cas")
    return at[rows.column("queue")[at] >= 0]


def headers(rows: Rows) -> dict[int, Header]:
    """Row → header, of all manifests. To be remembered: a long run has more manifests than values that are kept
    parsed."""
    at = manifest_rows(rows)
    return {row: Header.of(value) for row, value in zip(at.tolist(), rows.values(at), strict=True)}


def versions(rows: Rows) -> dict[int, list[int]]:
    """Queue → rows of the manifest versions that the store has applied, by version."""
    applied: dict[int, list[tuple[int, int]]] = {}
    queues = rows.column("queue")
    for at, known in rows.memo(headers).items():
        if known.is_applied:
            applied.setdefault(int(queues[at]), []).append((int(known.number), at))
    return {queue: [at for _, at in sorted(found)] for queue, found in sorted(applied.items())}


def content(rows: Rows, at: int) -> dict[str, Any]:
    """Return the manifest that a ``store_cas`` or ``manifest`` row is about. Raises ``ValueError`` when it names
    changes of one that is not in the history."""
    value = rows.value(at)
    found = header(value)
    if "changes" not in value:
        return found
    segments = named(rows, at).raw()
    return {**found, "segments": segments if _is_applied(value) else [*segments, *found["segments"]]}


def header(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same of a row with this value, but with only those segments that the row names itself."""
    found = value["changes"]["content"] if "changes" in value else value.get("content")
    return found if isinstance(found, dict) else {}


def named(rows: Rows, at: int) -> Named:
    """Return the segments of the manifest that the store has applied at a row. Raises as :func:`content` does."""
    queue = int(rows.column("queue")[at])
    found = rows.memo(Manifests).named(queue, at)
    if found is None:
        raise ValueError(
            f"row {rows.column('index')[at]} names changes of a manifest of queue {queue} that the history lacks"
        )
    return found


def _is_applied(value: Mapping[str, Any]) -> bool:
    return bool(value.get("outcome") == "applied")


def number(segment: Mapping[str, Any], name: str) -> int | None:
    """Return a number of a segment, None where the manifest does not name it."""
    value = segment.get(name)
    return value if isinstance(value, int) else None


def lawful_floors(rows: Rows, context: RunContext, queues: Ints) -> tuple[Ints, Flags]:
    """Return for each of these queues, which ascend, the offset below which the system is allowed to keep nothing, and
    whether the history shows why.

    With a tier it is where a manifest was trimmed to as permitted (:data:`TRIMMED`); without one, the highest minimum
    that a deletion on the brokers gave. In a storage cluster it is where groups were trimmed to.
    """
    deleted_of, deleted_to = rows.memo(_minimums)
    place, has_minimum = places_in(deleted_of, queues)
    floor = np.zeros(len(queues), dtype=np.int64)
    floor[has_minimum] = np.maximum(deleted_to[place[has_minimum]], 0)
    if Evidence.GROUPS in context.evidence:
        return trims.floors(rows, context, queues)
    known = np.full(len(queues), Evidence.RETENTION in context.evidence and rows.memo(_is_traced))
    trimmed = rows.lookup(trimmed_to)
    in_tier = np.array([*trimmed], dtype=np.int64)
    place, asked = places_in(queues, in_tier)
    for at, queue in zip(place[asked].tolist(), in_tier[asked].tolist(), strict=True):
        floor[at], known[at] = trimmed[queue]
    return floor, known


def trimmed_to(rows: Rows) -> dict[int, tuple[int, bool]]:
    """Return of each queue with a manifest the highest offset to which one was trimmed as permitted, and whether the
    history shows of all trims whether they were."""
    return {queue: _trims(rows, queue, manifests) for queue, manifests in rows.memo(versions).items()}


#: What :func:`lawful_floors` looks up.
TRIMMED = Lookup(rows=(Reads(kind="trace", f=("store_cas", "tier_commit")),), make=trimmed_to)


def deletions(rows: Rows) -> tuple[Ints, Sequence[Form]]:
    """Return all rows that report a deletion, and their values."""
    at = rows.where(kind="trace", f="retention")
    return at, rows.forms(at)


def _minimums(rows: Rows) -> tuple[Ints, Ints]:
    """Return the queues that deletions on the brokers name, ascending, and the highest minimum that any gave of
    each."""
    found: dict[int, int] = {}
    for form in rows.memo(deletions)[1]:
        for text, minimum in (form.value.get("minimums") or {}).items():
            queue, highest = int(text), _highest(minimum)
            found[queue] = max(found.get(queue, highest), highest)
    queues = np.array(sorted(found), dtype=np.int64)
    return queues, np.array([found[queue] for queue in queues.tolist()], dtype=np.int64)


def highest_minimums(rows: Rows) -> Ints:
    """Keep for each queue the deletion that named its highest minimum, the first of several, and the first one at all:
    what :func:`lawful_floors` needs. A sieve."""
    at, forms = rows.memo(deletions)
    best: dict[int, tuple[int, int]] = {}
    for form in forms:
        mine = at[form.at]
        for text, minimum in (form.value.get("minimums") or {}).items():
            minimums = form.whole(minimum)
            top = int(minimums.argmax())
            one = (int(minimums[top]), -int(mine[top]))
            best[int(text)] = max(best.get(int(text), one), one)
    return distinct(np.append(at[:1], np.array([-row for _, row in best.values()], dtype=np.int64)))


def _highest(number: Any) -> int:
    return int(number.max() if isinstance(number, np.ndarray) else number)


def _is_traced(rows: Rows) -> bool:
    """Did any replica report its life? Then it reported its deletions too."""
    return any(len(rows.where(kind="trace", f=f)) for f in ("start", "recovered", "role", "retention"))


def _trims(rows: Rows, queue: int, manifests: Sequence[int], found: Findings | None = None) -> tuple[int, bool]:
    """Recompute each version that begins later than the one before: what it drops must exceed the size to be kept, or
    have been in the tier for the time that it is kept, and the newest segment stays. ``found`` gets the trims that were
    not permitted; those by time are judged there alone, since only it has the faults that excuse a clock."""
    known_of = rows.memo(headers)
    starts = [int(known_of[at].trimmed_to) for at in manifests]
    trims = [place for place, (old, new) in enumerate(pairwise(starts), start=1) if new > old]
    kept = rows.memo(_kept_by_version) if trims else {}
    floor, known = 0, True
    for place in trims:
        before, after, start = manifests[place - 1], manifests[place], starts[place]
        retain, retain_ms = kept.get((queue, int(known_of[after].number)), (None, None))
        parts = [(number(part, "base"), number(part, "bytes")) for part in named(rows, before)]
        sized = [(base, size) for base, size in parts if base is not None and size is not None]
        if not isinstance(retain, int) or len(sized) < len(parts):
            known = False
            continue
        dropped = [size for base, size in sized if base < start]
        total = sum(dropped[-1:]) + sum(size for base, size in sized if base >= start)
        if dropped and 0 < retain < total and len(named(rows, after)):
            floor = max(floor, start)
            continue
        held_ms = -1.0
        if dropped and isinstance(retain_ms, int) and retain_ms > 0 and len(named(rows, after)):
            base = max(base for base, _ in sized if base < start)
            held_ms = _held_ms(rows, manifests, place, base)
            if held_ms >= CLOCKS_AGREE * retain_ms:
                floor = max(floor, start)
                continue
            if held_ms < 0 or found is None or _is_skewed(rows, known_of[after].writer, after, held_ms):
                known = False
                continue
        if found is None:
            continue
        found.add(
            EARLY_RETENTION,
            f"{header(rows.value(after)).get('writer', 'Somebody')} trimmed the manifest of queue {queue} to begin at "
            f"offset {start} at {facts.at_s(rows, after)}, "
            + (_kept(retain, total) if held_ms < 0 else _kept_for(retain_ms, held_ms)),
            int(rows.column("index")[before]),
            int(rows.column("index")[after]),
            queue=queue,
            offset=start,
        )
    return floor, known


def _held_ms(rows: Rows, manifests: Sequence[int], place: int, base: int) -> float:
    """Return for how long manifests had named the record at this offset without a break when the version at this place
    was applied; -1 where the store does not say when the first of them was."""
    ends, times = rows.column("offset"), rows.column("time_ns")
    first = place - 1
    while first > 0 and ends[manifests[first - 1]] > base:
        first -= 1
    if rows.value(manifests[first]).get("recovered"):
        return -1
    return float(times[manifests[place]] - times[manifests[first]]) / 1e6


def _is_skewed(rows: Rows, writer: str, after: int, held_ms: float) -> bool:
    """Return whether a fault may have had its hands on the uploader's clock meanwhile."""
    ended_ns = int(rows.column("time_ns")[after])
    began_ns = ended_ns - int(held_ms * 1e6)
    return any(
        (writer in fault.hits(Effect.SKEWS_CLOCKS) or fault.may_hit(writer))
        and fault.began_ns <= ended_ns
        and began_ns <= fault.until_ns
        for fault in rows.memo(facts.faults)
    )


def _kept_by_version(rows: Rows) -> dict[tuple[int, int], tuple[Any, Any]]:
    """Queue and version → how many bytes its uploader was to keep, and for how long."""
    commits = rows.where(kind="trace", f="tier_commit")
    each = zip(rows.column("queue")[commits].tolist(), rows.values(commits), strict=True)
    return {
        (queue, int(value.get("version", -1))): (value.get("retain_bytes"), value.get("retain_ms"))
        for queue, value in each
    }


def _kept(retain: int, total: int) -> str:
    if retain <= 0:
        return "but must keep everything."
    return f"but must keep {retain} bytes." if retain >= total else "but must keep the newest segment."


def _kept_for(retain_ms: int, held_ms: float) -> str:
    return f"but must keep for {retain_ms} ms what it had held for {held_ms:.0f} ms."


def examine(rows: Rows, context: RunContext, found: Findings, queues: Ints) -> None:
    """Recompute every deletion of local log: a tiered queue's records are deleted only below the end of a manifest
    that is committed (in a simulated run: by then), and by size only what is beyond the size that is kept; without a
    tier, only where that is set; and every trim of a manifest. Of these ``queues`` it is known what manifests hold."""
    _by_option(rows, found)
    for queue, manifests in rows.memo(versions).items():
        _trims(rows, queue, manifests, found)
    if Evidence.TIER in context.evidence:
        for queue, at, minimum in _tiered_deletions(rows, queues):
            _by_tier(rows, context, found, queue, at, minimum)


def _tiered_deletions(rows: Rows, queues: Ints) -> Iterator[tuple[int, Ints, Ints]]:
    """Yield each of these queues, the rows that reported deletions from it, and up to which offset each."""
    own = {*queues.tolist()}
    at, forms = rows.memo(deletions)
    found: dict[int, list[tuple[Ints, Ints]]] = {}
    for form in forms:
        tiered = bool((form.value.get("inputs") or {}).get("tiered"))
        for text, minimum in sorted((form.value.get("minimums") or {}).items()):
            queue = int(text)
            if queue in own and (tiered or queue in rows.memo(versions)):
                found.setdefault(queue, []).append((at[form.at], form.whole(minimum)))
    for queue, parts in sorted(found.items()):
        deleted, minimums = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(deleted, kind="stable")
        yield queue, deleted[order], minimums[order]


def _by_tier(rows: Rows, context: RunContext, found: Findings, queue: int, at: Ints, minimum: Ints) -> None:
    index, offset = rows.column("index"), rows.column("offset")
    committed = np.array(rows.memo(versions).get(queue, ()), dtype=np.int64)
    by_index = np.sort(committed)
    before = np.searchsorted(by_index, at) if context.one_clock else np.full(len(at), len(committed))
    covered = np.maximum.accumulate(np.append(0, offset[by_index]))[before]

    def report(number: int) -> None:
        known = committed[committed < at[number]] if context.one_clock else committed
        witness = known[np.argmax(offset[known])] if len(known) else -1
        found.add(
            EARLY_RETENTION,
            f"{rows.text('node', at[number])} deleted queue {queue} up to offset {int(minimum[number])} at "
            f"{facts.at_s(rows, at[number])}, but the tier held it only up to offset {int(covered[number])}.",
            int(index[witness]) if witness >= 0 else -1,
            int(index[at[number]]),
            queue=queue,
            offset=int(covered[number]),
        )

    found.add_each(EARLY_RETENTION, np.flatnonzero(minimum > covered), report)


def _by_option(rows: Rows, found: Findings) -> None:
    """Check deletions against a replica's own options: by size, only what is beyond the size; a replica that is to keep
    0 bytes is to keep everything, unless it names another rule by which it deletes. What no tier holds goes only where
    that is set."""
    at, forms = rows.memo(deletions)
    position = rows.column("position")
    wrong = [at[:0]]
    for form in forms:
        inputs, by_size = form.value.get("inputs") or {}, form.value.get("rule", BY_SIZE) == BY_SIZE
        kept, end, mine = inputs.get("retain_bytes"), inputs.get("end"), at[form.at]
        if _is_untiered(inputs):
            wrong.append(mine)
        elif isinstance(kept, int | np.ndarray) and isinstance(end, int | np.ndarray):
            kept, end = form.whole(kept), form.whole(end)
            wrong.append(mine[np.where(kept > 0, position[mine] > end - kept, by_size)])

    def report(at: int) -> None:
        inputs = rows.value(at).get("inputs") or {}
        found.add(
            EARLY_RETENTION,
            f"{rows.text('node', at)} must keep {_to_be_kept(inputs)}, but deleted up to position {int(position[at])} "
            f"when the log ended at {inputs.get('end')}.",
            int(rows.column("index")[at]),
        )

    found.add_each(EARLY_RETENTION, np.sort(np.concatenate(wrong)), report)


def _is_untiered(inputs: Mapping[str, Any]) -> bool:
    """Return whether a replica reports that no tier holds what it deleted, and that it may not delete that."""
    return inputs.get("tiered") is False and inputs.get("delete_untiered") is False


def _to_be_kept(inputs: Mapping[str, Any]) -> str:
    if _is_untiered(inputs):
        return "what no tier holds"
    kept = int(inputs["retain_bytes"])
    return f"the last {kept} bytes of its log" if kept > 0 else "its whole log"
