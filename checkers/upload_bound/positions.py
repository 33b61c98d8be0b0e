"""Where the records that a version adds end in the log of its uploader, whatever the manifest says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
from checkers._facts.tier import Version
from checkers.upload_bound.bound import confirm_of
from checkers.upload_bound.promise import POSITION_MISSTATED, PROMISE, UPLOAD_BEYOND_CONFIRM

POSITIONS = Needs(
    part="where uploaded records end",
    on_prefix=True,
    key=Key.OFFSET,
    rows=(
        own("trace", "append", "store_cas"),
        reads.MANIFESTS_OF_PARTS,
        *reads.CONFIRMED_BY_COMMIT,
        reads.RUN,
    ),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS),
    evidence=(Evidence.TIER, Evidence.CONFIRM),
)


@dataclass(frozen=True, slots=True)
class Positions:
    """Where the records that a version adds end in the log of its uploader, whatever the manifest says of it.

    A manifest stands at its end, and the record before that may stand in another shard of its queue. Every shard knows
    all manifests, and judges those at whose last offset anything was appended in it. Each manifest's own shard says so
    where nothing was (``unmet``, a row), and a shard that judges another one's manifest that it did (``met``).
    """

    promise: Promise = PROMISE
    needs: Needs = POSITIONS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found, every, index = Findings(PROMISE), rows.beside, rows.column("index")
        sent = _sent(every, unfinished=context.unfinished)
        positions = 0
        for queue, versions in every.memo(tier.manifests).items():
            appended = rows.column("offset")[rows.where(kind="trace", f="append", queue=queue)]
            of_shard, has_record = rows.own[versions.at], np.isin(versions.end - 1, appended)
            positions += int(np.count_nonzero(of_shard))
            commits = _commits(every, versions, sent)
            are_right = _are_right(every, versions, commits) & has_record
            for place in np.flatnonzero((of_shard & ~are_right) | (has_record & ~(of_shard & are_right))).tolist():
                version, before = versions[place], versions[place - 1] if place else None
                mine, here, commit = bool(of_shard[place]), bool(has_record[place]), int(commits[place])
                if before is not None and version.end == before.end:
                    if mine and version.position != before.position:
                        _report_position(every, found, version, before.position, before.at)
                elif version.segments:
                    writer = version.writer
                    if commit < 0 and context.unfinished:  # the uploader's own row of it may be read later
                        continue
                    if commit < 0:
                        found.fact(gap=f"{writer or 'somebody'} did not say when it sent a manifest of queue {queue}")
                    if here and not are_right[place]:
                        _check_end(every, found, version, commit, unfinished=context.unfinished)
                    if not here:
                        found.fact(unmet=int(index[version.at]), gap=_unknown_end(version))
                    elif not mine:
                        found.fact(met=int(index[version.at]))
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


def _request(value: Mapping[str, Any], writer: str, queue: int) -> tuple[str | int, ...]:
    """Return what the row of a commit and the store's row of it have in common: the request, or else version and
    writer."""
    if value.get("request"):
        return (str(value["request"]),)
    return (writer, queue, int(value.get("version", -1)))


def _sent(rows: Rows, *, unfinished: bool) -> Mapping[tuple[str | int, ...], int]:
    """Return the rows by which uploaders report that they sent a manifest. ``unfinished``: who sends one again without
    naming the request may do so later."""
    commits = rows.where(kind="trace", f="tier_commit")
    each = zip(commits.tolist(), rows.column("queue")[commits].tolist(), rows.values(commits), strict=True)
    return {
        _request(value, rows.text("node", at), queue): at
        for at, queue, value in each
        if not unfinished or value.get("request")
    }


def _commits(rows: Rows, versions: tier.Versions, sent: Mapping[tuple[str | int, ...], int]) -> Ints:
    """Return the row by which its uploader sent each version, -1 where none did."""
    each = zip(rows.values(versions.at), versions.writer.tolist(), strict=True)
    found = [sent.get(_request(value, versions.writers[writer], versions.queue), -1) for value, writer in each]
    return np.array(found, dtype=np.int64)


def _are_right(rows: Rows, versions: tier.Versions, commits: Ints) -> Flags:
    """Return which versions surely end where the record ends that stood in the uploader's log then: the only one that
    it ever appended at this offset, above where its log began, and before it sent the version."""
    offset, nodes = versions.end - 1, [rows.code("node", writer) for writer in versions.writers]
    appended = rows.where(kind="trace", f="append", queue=versions.queue)
    appended = appended[among(rows.column("offset")[appended], offset)]
    columns = (rows.column("node")[appended], rows.column("offset")[appended])
    asked = (np.array(nodes)[versions.writer], offset)
    slot, count = slots(*(np.append(known, wanted) for known, wanted in zip(columns, asked, strict=True)))
    mine, wanted = slot[: len(appended)], slot[len(appended) :]
    record = np.where(np.bincount(mine, minlength=count) == 1, first_in(mine, count, appended), -1)[wanted]
    end = rows.column("position")[record] + np.maximum(rows.numbers("size", record), 1)
    known = (record >= 0) & (commits >= 0) & np.array([bool(spans) for spans in versions.spans])
    found: Flags = known & (end == versions.position) & _earlier(rows, record, commits)
    found &= offset >= np.array([_began(rows, writer, versions.queue) for writer in versions.writers])[versions.writer]
    found[1:] &= versions.end[1:] != versions.end[:-1]
    return found


def _earlier(rows: Rows, at: Ints | int, than: Ints | int) -> Flags:
    """Return which of these rows, or of those of one node, it lived before the others."""
    is_earlier: Flags = np.zeros(1, dtype=np.bool_)
    for name in ("index", "step", "incarnation"):
        one, other = rows.column(name)[at], rows.column(name)[than]
        is_earlier = (one < other) | ((one == other) & is_earlier)
    return is_earlier


def _began(rows: Rows, node: str, queue: int) -> int:
    """Return the highest offset at which a log of this node ever began to hold the queue."""
    begun = rows.values(rows.where(kind="trace", f="bootstrap", node=node))
    return max((int((value.get("queues") or {}).get(str(queue), 0)) for value in begun), default=0)


def _record(rows: Rows, version: Version, commit: int, *, unfinished: bool) -> int:
    """Return the row of the record that stood at the version's last offset in its uploader's log when it sent the
    version (``commit``, -1: unknown); -1 if nobody reported it. ``unfinished``: more may be reported.

    A log that began again above the record never had it: there it is the record of the history that it goes on from,
    which other replicas appended. A version ends there when its uploader has cut it back to where its log begins.
    """
    node, queue, offset = version.writer, version.queue, version.end - 1
    known = facts.in_node_order(rows, rows.where(kind="trace", f="append", node=node, queue=queue, offset=offset))
    if commit >= 0:
        known = known[_earlier(rows, known, commit)]
        begun = facts.node_traces(rows, node, "bootstrap")
        for one in begun[_earlier(rows, begun, commit)][-1:].tolist():
            if offset < int((rows.value(one).get("queues") or {}).get(str(queue), 0)):
                since = known[_earlier(rows, one, known)]
                known = since if len(since) or unfinished else _of_history(rows, one, queue, offset)
    return int(known[-1]) if len(known) else -1


def _of_history(rows: Rows, begun: int, queue: int, offset: int) -> Ints:
    """Return what anybody appended at this offset in the epochs that this beginning goes on from: an epoch has one
    record at an offset."""
    epochs = [(int(start), int(epoch)) for epoch, start in rows.value(begun).get("epochs") or ()]
    appended = rows.where(kind="trace", f="append", queue=queue, offset=offset)
    each = zip(rows.column("position")[appended], rows.column("epoch")[appended], strict=True)
    return appended[[one == max((e for start, e in epochs if start <= at), default=-1) for at, one in each]]


def _check_end(rows: Rows, found: Findings, version: Version, commit: int, *, unfinished: bool) -> None:
    """Check that P is where the last record ends that stood in the uploader's log at this offset when it sent the
    version; and that the uploader had confirmed that, by then."""
    last = _record(rows, version, commit, unfinished=unfinished)
    if last < 0:
        found.fact(gap=_unknown_end(version))
        return
    size = rows.value(last).get("size")
    end = int(rows.column("position")[last]) + (max(1, size) if isinstance(size, int) else 1)
    if end != version.position:
        _report_position(rows, found, version, end, last)
    if commit < 0 or end == version.position:
        return
    confirms = facts.node_traces(rows, version.writer, "confirm", "recovered", "bootstrap")
    life, step = (rows.column(name) for name in ("incarnation", "step"))
    so_far = confirms[(life[confirms] == life[commit]) & (step[confirms] <= step[commit])]
    for known in so_far[-1:].tolist():
        if confirm_of(rows, known) >= end:
            continue
        found.add(
            UPLOAD_BEYOND_CONFIRM,
            f"{version.writer} committed a manifest of queue {version.queue} at {facts.at_s(rows, commit)} whose last "
            f"record ends at log position {end}, when its confirm offset was {confirm_of(rows, known)}.",
            int(rows.column("index")[known]),
            int(rows.column("index")[version.at]),
            queue=version.queue,
            offset=version.end,
        )


def _unknown_end(version: Version) -> str:
    return f"{version.writer} reported nothing of the record at which a manifest of queue {version.queue} ends"


def _report_position(rows: Rows, found: Findings, version: Version, end: int, witness: int) -> None:
    index = rows.column("index")
    found.add(
        POSITION_MISSTATED,
        f"Version {version.version} of the manifest of queue {version.queue}, by {version.writer}, says that its last "
        f"record (offset {version.end - 1}) ends at log position {version.position}; it ends at {end}.",
        int(index[witness]),
        int(index[version.at]),
        queue=version.queue,
        offset=version.end,
    )
