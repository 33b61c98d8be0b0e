"""Where the records that a version adds end in the log of its uploader, whatever the manifest says of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import reads, tier
from checkers._facts.arrays import Flags, Ints, among, first_in, slots
from checkers._facts.reads import own
from checkers._facts.run import load_began_ns
from checkers.upload_bound.bound import confirm_of
from checkers.upload_bound.ends import ENDS, End, Ends, Moment, ends_of_versions
from checkers.upload_bound.promise import POSITION_MISSTATED, PROMISE, UPLOAD_BEYOND_CONFIRM

POSITIONS = Needs(
    part="where uploaded records end",
    on_prefix=True,
    key=Key.OFFSET,
    rows=(
        own("trace", "append", "store_cas"),
        *reads.CONFIRMED_BY_COMMIT,
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS),
    evidence=(Evidence.TIER, Evidence.CONFIRM),
    lookups=(ENDS,),
)


@dataclass(frozen=True, slots=True)
class Positions:
    """Where the records that a version adds end in the log of its uploader, whatever the manifest says of it.

    A manifest stands at its end, and the record before that may stand in another shard of its queue. Every shard knows
    where all manifests end, and judges those at whose last offset anything was appended in it. Each manifest's own
    shard says so where nothing was (``unmet``, a row), and a shard that judges another one's manifest that it did
    (``met``).
    """

    promise: Promise = PROMISE
    needs: Needs = POSITIONS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found, own_rows = Findings(PROMISE), rows.column("index")[rows.where(kind="trace", f="store_cas")]
        positions = 0
        for queue, ends in rows.lookup(ends_of_versions).items():
            appended = rows.column("offset")[rows.where(kind="trace", f="append", queue=queue)]
            of_shard, has_record = among(ends.index, own_rows), among(ends.end - 1, appended)
            positions += int(np.count_nonzero(of_shard))
            is_sent = (ends.sent.index >= 0) & (ends.names_request | (not context.unfinished))
            are_right = has_record & is_sent & _are_right(rows, ends)
            for place in np.flatnonzero((of_shard & ~are_right) | (has_record & ~(of_shard & are_right))).tolist():
                mine, here, end = bool(of_shard[place]), bool(has_record[place]), ends.one(place, bool(is_sent[place]))
                if end.repeats:
                    if mine and end.position != end.before_position:
                        _report_position(found, end, end.before_position, end.before_index)
                elif end.names_any:
                    if end.sent is None and context.unfinished:  # the uploader's own row of it may be read later
                        continue
                    if end.sent is None:
                        who = end.writer or "somebody"
                        found.fact(gap=f"{who} did not say when it sent a manifest of queue {queue}")
                    if here and not are_right[place]:
                        _check_end(rows, found, end, unfinished=context.unfinished)
                    if not here:
                        found.fact(unmet=end.index, gap=_unknown_end(end))
                    elif not mine:
                        found.fact(met=end.index)
        found.count("positions_told", positions)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Decide by the facts of all shards. A ``gap`` of a shard is one of the run, unless it is that of a manifest
        which another shard has met. Where a shard was not examined, it may be the one that would have."""
        met = {fact["met"] for fact in partial.facts if "met" in fact}
        gaps = {
            str(fact["gap"]): None
            for fact in partial.facts
            if "gap" in fact and ("unmet" not in fact or not (partial.gaps or fact["unmet"] in met))
        }
        known = partial.merge(Partial(gaps=(*gaps,)))
        return tier.judge(PROMISE, known, context, [("positions_told", "no manifest was committed")])


def _are_right(rows: Rows, ends: Ends) -> Flags:
    """Return which versions surely end where the record ends that stood in the uploader's log then: the only one that
    it ever appended at this offset, above where its log began, and before it sent the version."""
    offset, nodes = ends.end - 1, [rows.code("node", writer) for writer in ends.writers]
    appended = rows.where(kind="trace", f="append", queue=ends.queue)
    appended = appended[among(rows.column("offset")[appended], offset)]
    columns = (rows.column("node")[appended], rows.column("offset")[appended])
    asked = (np.array(nodes, dtype=np.int64)[ends.writer], offset)
    slot, count = slots(*(np.append(known, wanted) for known, wanted in zip(columns, asked, strict=True)))
    mine, wanted = slot[: len(appended)], slot[len(appended) :]
    record = np.where(np.bincount(mine, minlength=count) == 1, first_in(mine, count, appended), -1)[wanted]
    end = rows.column("position")[record] + np.maximum(rows.numbers("size", record), 1)
    found: Flags = (record >= 0) & ends.names_any & ~ends.repeats & (end == ends.position)
    found &= Moment.of(rows, record).is_before(ends.sent)
    began = [_began(rows, writer, ends.queue) for writer in ends.writers]
    return found & (offset >= np.array(began, dtype=np.int64)[ends.writer])


def _began(rows: Rows, node: str, queue: int) -> int:
    """Return the highest offset at which a log of this node ever began to hold the queue."""
    begun = rows.values(rows.where(kind="trace", f="bootstrap", node=node))
    return max((int((value.get("queues") or {}).get(str(queue), 0)) for value in begun), default=0)


def _record(rows: Rows, end: End, *, unfinished: bool) -> int:
    """Return the row of the record that stood at the version's last offset in its uploader's log when it sent the
    version; -1 if nobody reported it. ``unfinished``: more may be reported.

    A log that began again above the record never had it: there it is the record of the history that it goes on from,
    which other replicas appended. A version ends there when its uploader has cut it back to where its log begins.
    """
    node, queue, offset = end.writer, end.queue, end.end - 1
    known = facts.in_node_order(rows, rows.where(kind="trace", f="append", node=node, queue=queue, offset=offset))
    if end.sent is not None:
        known = known[Moment.of(rows, known).is_before(end.sent)]
        begun = facts.node_traces(rows, node, "bootstrap")
        for one in begun[Moment.of(rows, begun).is_before(end.sent)][-1:].tolist():
            if offset < int((rows.value(one).get("queues") or {}).get(str(queue), 0)):
                since = known[Moment.of(rows, np.array([one])).is_before(Moment.of(rows, known))]
                known = since if len(since) or unfinished else _of_history(rows, one, queue, offset)
    return int(known[-1]) if len(known) else -1


def _of_history(rows: Rows, begun: int, queue: int, offset: int) -> Ints:
    """Return what anybody appended at this offset in the epochs that this beginning goes on from: an epoch has one
    record at an offset."""
    epochs = [(int(start), int(epoch)) for epoch, start in rows.value(begun).get("epochs") or ()]
    appended = rows.where(kind="trace", f="append", queue=queue, offset=offset)
    each = zip(rows.column("position")[appended], rows.column("epoch")[appended], strict=True)
    return appended[[one == max((e for start, e in epochs if start <= at), default=-1) for at, one in each]]


def _check_end(rows: Rows, found: Findings, end: End, *, unfinished: bool) -> None:
    """Check that P is where the last record ends that stood in the uploader's log at this offset when it sent the
    version; and that the uploader had confirmed that, by then."""
    last = _record(rows, end, unfinished=unfinished)
    if last < 0:
        found.fact(gap=_unknown_end(end))
        return
    size = rows.value(last).get("size")
    position = int(rows.column("position")[last]) + (max(1, size) if isinstance(size, int) else 1)
    if position != end.position:
        _report_position(found, end, position, int(rows.column("index")[last]))
    if end.sent is None or position == end.position:
        return
    confirms = facts.node_traces(rows, end.writer, "confirm", "recovered", "bootstrap")
    life, step = (rows.column(name) for name in ("incarnation", "step"))
    so_far = confirms[(life[confirms] == end.sent.incarnation) & (step[confirms] <= end.sent.step)]
    for known in so_far[-1:].tolist():
        if confirm_of(rows, known) >= position:
            continue
        sent_at = facts.in_s(end.sent_ns - rows.memo(load_began_ns))
        found.add(
            UPLOAD_BEYOND_CONFIRM,
            f"{end.writer} committed a manifest of queue {end.queue} at {sent_at} whose last "
            f"record ends at log position {position}, when its confirm offset was {confirm_of(rows, known)}.",
            int(rows.column("index")[known]),
            end.index,
            queue=end.queue,
            offset=end.end,
        )


def _unknown_end(end: End) -> str:
    return f"{end.writer} reported nothing of the record at which a manifest of queue {end.queue} ends"


def _report_position(found: Findings, end: End, position: int, witness: int) -> None:
    found.add(
        POSITION_MISSTATED,
        f"Version {end.version} of the manifest of queue {end.queue}, by {end.writer}, says that its last "
        f"record (offset {end.end - 1}) ends at log position {end.position}; it ends at {position}.",
        witness,
        end.index,
        queue=end.queue,
        offset=end.end,
    )
