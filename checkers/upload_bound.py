"""The tier holds only what is confirmed: P ≤ confirm in the step that commits, with the same bytes as the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaos.driver import Evidence
from chaos.findings import Findings
from chaos.kernel import Key, Needs
from chaos.law import AnomalyKind, Partial, Promise, RunContext
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses, reads, retention, tier
from checkers._facts.arrays import Flags, Ints, among, distinct, first_in, pairs_occur, slots
from checkers._facts.reads import own
from checkers._facts.tier import Moment, Timeline, Version

UPLOAD_BEYOND_CONFIRM = "upload-beyond-confirm"
TIER_LOG_MISMATCH = "tier-log-mismatch"
TIER_OFFSET_REGRESSION = "tier-offset-regression"
POSITION_MISSTATED = "position-misstated"
PROMISE = Promise(
    name="upload-bound",
    place=40,
    meaning="The tier never holds what is not confirmed.",
    anomalies=(
        AnomalyKind(name=UPLOAD_BEYOND_CONFIRM, meaning="a manifest goes beyond what was confirmed when it was sent"),
        AnomalyKind(
            name=POSITION_MISSTATED,
            meaning="a manifest gives another log position than the one where its last record ends",
        ),
        AnomalyKind(name=TIER_LOG_MISMATCH, meaning="a tiered record differs from the confirmed log of a replica"),
        AnomalyKind(
            name=TIER_OFFSET_REGRESSION,
            meaning="a manifest ends earlier than the version before it, or an older version came back",
        ),
    ),
)


BOUND = Needs(
    part="what uploaders had confirmed",
    on_prefix=True,
    key=Key.RUN,
    rows=(*reads.CONFIRMED_BY_COMMIT, *reads.CONFIRMED_BY_OTHERS, reads.RUN),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS),
    evidence=(Evidence.TIER, Evidence.CONFIRM),
)
VERSIONS = Needs(
    part="versions of manifests",
    on_prefix=True,
    key=Key.QUEUE,
    rows=(own("trace", "tier_stop", "store_cas"), *losses.TERMS),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS, "type"),
    evidence=(Evidence.TIER, Evidence.CONFIRM),
)
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
CONTENT = Needs(
    part="tiered records against logs",
    key=Key.OFFSET,
    rows=(own("final", "tiered"), *losses.TERMS, *reads.FINAL_LOGS, *reads.CONFIRMED_APPENDS),
    columns=(*reads.BASIC, *reads.LIVES, *reads.RECORDS, "type"),
    evidence=(Evidence.TIER_CONTENT, Evidence.FINAL_LOGS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What uploaders sent, against their confirm offset, and against what the disks had."""

    promise: Promise = PROMISE
    needs: Needs = BOUND

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found = Findings(PROMISE)
        commits = rows.where(kind="trace", f="tier_commit")
        found.count("tier_commits", len(commits))
        if not len(commits):
            found.gap("no uploader reported the step that committed a manifest")
        _confirmed(rows, context, found, commits)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [])


@dataclass(frozen=True, slots=True)
class Versions:
    """What the versions of a manifest say themselves, and in which order they came."""

    promise: Promise = PROMISE
    needs: Needs = VERSIONS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found = Findings(PROMISE)
        found.count("manifest_versions", sum(len(known) for known in rows.memo(tier.manifests).values()))
        _own_words(rows, found)
        _versions_grow(rows, found)
        _given_up(rows, context, found)
        if losses.keeps(rows, context, confirmed=True):
            for before, after in tier.falls(rows, "end"):
                found.add(
                    TIER_OFFSET_REGRESSION,
                    f"Version {after.version} of the manifest of queue {after.queue}, by {after.writer} (epoch "
                    f"{after.epoch}), ends at offset {after.end}, but version {before.version} ended at {before.end}.",
                    *(int(rows.column("index")[v.at]) for v in (before, after)),
                    queue=after.queue,
                    offset=after.end,
                )
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [("manifest_versions", "no manifest was committed")])


def _confirmed(rows: Rows, context: RunContext, found: Findings, commits: Ints) -> None:
    """Check at the step of each commit that P is at most the node's confirm offset, and that this is backed by the
    set's disks. A log that begins again at S begins with S as its confirm offset: there is no log below it."""
    position, index = rows.column("position"), rows.column("index")
    commits = facts.by_node(rows, commits)
    confirms = np.concatenate([rows.where(kind="trace", f=f) for f in ("confirm", "recovered", "bootstrap")])
    known = facts.last_before(rows, confirms, commits, by_step=True)
    recovered = rows.column("f")[known] == rows.code("f", "recovered")
    is_judged = context.profile.flush == "sync" and (context.one_clock or not context.unfinished)
    doubtful = (known < 0) | recovered | (position[commits] > position[known])
    if is_judged:
        doubtful |= ~_are_backed(rows, context, known, position[commits])
    for at, before in zip(commits[doubtful].tolist(), known[doubtful].tolist(), strict=True):
        if before < 0:
            found.gap(f"{rows.text('node', at)} committed a manifest before it reported any confirm offset")
            continue
        confirm = _confirm(rows, before)
        if position[at] > confirm:
            found.add(
                UPLOAD_BEYOND_CONFIRM,
                f"{rows.text('node', at)} committed a manifest of queue {int(rows.column('queue')[at])} up to log "
                f"position {int(position[at])} at {facts.at_s(rows, at)}, when its confirm offset was {confirm}.",
                int(index[before]),
                int(index[at]),
                queue=int(rows.column("queue")[at]),
                offset=int(rows.column("offset")[at]),
            )
        elif is_judged and rows.text("f", before) != "recovered":
            _backed(rows, context, found, before, at)


def _are_backed(rows: Rows, context: RunContext, known: Ints, position: Ints) -> Flags:
    """Return which of these ``confirm`` rows, or what else a node went by, surely name a set whose disks all had what
    is committed: whole columns say so."""
    confirms, index = rows.where(kind="trace", f="confirm"), rows.column("index")
    least = np.full(len(rows), -1)  # what all disks of the set of a row had
    for form in rows.memo(facts.confirm_forms):
        at = confirms[form.at]
        least[at] = facts.NEVER
        for member in {*(form.value.get("set") or ()), *(form.value.get("proposed") or ())}:
            indexes, ends = rows.memo(facts.durable_ends).get(member, (index[:0], index[:0]))
            durable = np.append(ends, -1)[np.searchsorted(indexes, index[at], side="right") - 1]
            least[at] = np.minimum(least[at], durable if context.one_clock else ends.max(initial=-1))
    found: Flags = (least[known] >= position) & (least[known] >= 0)
    return found


def _confirm(rows: Rows, at: int) -> int:
    """Return the confirm offset that this row gives."""
    if rows.text("f", at) == "recovered":
        return int(rows.value(at).get("confirm", -1))
    return int(rows.column("position")[at])


def _backed(rows: Rows, context: RunContext, found: Findings, confirm: int, commit: int) -> None:
    """Check that every member of the set that the confirm row names had P on its disk: at that row in a simulated run,
    at some time elsewhere, where no clock orders the rows of two nodes."""
    value = rows.value(confirm)
    index, position = rows.column("index"), rows.column("position")
    for member in sorted({*(value.get("set") or ()), *(value.get("proposed") or ())}):
        indexes, ends = rows.memo(facts.durable_ends).get(member, (None, None))
        if indexes is None or ends is None:
            found.gap(f"{member} reported nothing of what is durable on its disk")
            continue
        place = int(np.searchsorted(indexes, index[confirm], side="right")) - 1
        durable = int(ends[place]) if place >= 0 else -1
        if not context.one_clock:
            durable = int(ends.max())
        if durable < position[commit] and facts.may_lack_ends(rows):
            found.gap(facts.ENDS_LACKING.format(member))
        elif durable < position[commit]:
            found.add(
                UPLOAD_BEYOND_CONFIRM,
                f"{rows.text('node', commit)} committed a manifest of queue {int(rows.column('queue')[commit])} up to "
                f"log position {int(position[commit])} at {facts.at_s(rows, commit)}, but {member}, a member of the "
                f"SyncStateSet, had only {max(0, durable)} on its disk.",
                int(index[confirm]),
                int(index[commit]),
                queue=int(rows.column("queue")[commit]),
                offset=int(rows.column("offset")[commit]),
            )


def _given_up(rows: Rows, context: RunContext, found: Findings) -> None:
    """Report each uploader that gave a queue up: it has found the tier and its own log in contradiction."""
    for at in rows.where(kind="trace", f="tier_stop"):
        queue, reason = int(rows.column("queue")[at]), rows.value(at).get("reason", "no reason was recorded")
        what = f"{rows.text('node', at)} stopped uploading queue {queue} at {facts.at_s(rows, at)}: {reason}"
        if losses.keeps(rows, context, confirmed=True):
            index = int(rows.column("index")[at])
            found.add(TIER_LOG_MISMATCH, f"{what}.", index, queue=queue)
        else:
            found.gap(what)


def _versions_grow(rows: Rows, found: Findings) -> None:
    """Check that each version that the store applies is a newer one than all before it: nothing of a manifest comes
    back, and no version is there twice. What a store reports again after a crash is one and the same request."""
    index, queue, content = (rows.column(name) for name in ("index", "queue", "hash"))
    newest: dict[int, tuple[int, tuple[str, int], int]] = {}
    at = facts.in_node_order(rows, retention.manifest_rows(rows))
    for row, value in zip(at.tolist(), rows.values(at), strict=True):
        if value.get("outcome") != "applied":
            continue
        version, request = int(value.get("version", -1)), (str(value.get("request", "")), int(content[row]))
        before = newest.setdefault(int(queue[row]), (version, request, row))
        if version > before[0]:
            newest[int(queue[row])] = (version, request, row)
        elif before[2] != row and (version, request) != before[:2]:
            found.add(
                TIER_OFFSET_REGRESSION,
                f"The object store applied version {version} of the manifest of queue {int(queue[row])} at "
                f"{facts.at_s(rows, row)}, after version {before[0]}.",
                int(index[before[2]]),
                int(index[row]),
                queue=int(queue[row]),
                offset=int(rows.column("offset")[row]),
            )


def _own_words(rows: Rows, found: Findings) -> None:
    """Check that each version's own P is at most its own confirm offset."""
    for known in rows.memo(tier.manifests).values():
        for place in np.flatnonzero((known.position > known.confirm) & (known.confirm >= 0)).tolist():
            version = known[place]
            found.add(
                UPLOAD_BEYOND_CONFIRM,
                f"Version {version.version} of the manifest of queue {version.queue} goes up to log position "
                f"{version.position}, and says itself that only {version.confirm} was confirmed.",
                int(rows.column("index")[version.at]),
                queue=version.queue,
                offset=version.end,
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
            logs: dict[str, _Log] = {}
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
                        if writer not in logs:
                            logs[writer] = _Log.of(every, writer, queue, unfinished=context.unfinished)
                        _check_end(every, found, version, logs[writer], commit)
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


def _earlier(rows: Rows, at: Ints, than: Ints) -> Flags:
    """Return which of these rows a node lived before those."""
    is_earlier = np.zeros(len(at), dtype=np.bool_)
    for name in ("index", "step", "incarnation"):
        one, other = rows.column(name)[at], rows.column(name)[than]
        is_earlier = (one < other) | ((one == other) & is_earlier)
    return is_earlier


def _began(rows: Rows, node: str, queue: int) -> int:
    """Return the highest offset at which a log of this node ever began to hold the queue."""
    begun = rows.values(rows.where(kind="trace", f="bootstrap", node=node))
    return max((int((value.get("queues") or {}).get(str(queue), 0)) for value in begun), default=0)


@dataclass(frozen=True, slots=True)
class _Appended:
    """The records of one queue that a node has appended, sorted by offset, and among equals in its own order."""

    at: Ints
    offset: Ints

    @classmethod
    def of(cls, rows: Rows, node: str, queue: int) -> _Appended:
        at = facts.in_node_order(rows, rows.where(kind="trace", f="append", node=node, queue=queue))
        at = at[np.argsort(rows.column("offset")[at], kind="stable")]
        return cls(at, rows.column("offset")[at])

    def of_offset(self, offset: int) -> list[int]:
        begin, end = np.searchsorted(self.offset, [offset, offset + 1])
        found: list[int] = self.at[begin:end].tolist()
        return found


@dataclass(frozen=True, slots=True)
class _Log:
    """What an uploader reported of its log, and of one queue in it. ``unfinished``: so far; more may be reported."""

    queue: int
    unfinished: bool
    appended: _Appended
    begun: Timeline
    confirms: Timeline

    @classmethod
    def of(cls, rows: Rows, node: str, queue: int, *, unfinished: bool) -> _Log:
        return cls(
            queue=queue,
            unfinished=unfinished,
            appended=_Appended.of(rows, node, queue),
            begun=Timeline.of(rows, node, "bootstrap"),
            confirms=Timeline.of(rows, node, "confirm", "recovered", "bootstrap"),
        )

    def record(self, rows: Rows, offset: int, now: Moment | None) -> int:
        """Return the row of the record that stood at this offset of the log at a moment (None: unknown); -1 if nobody
        reported it.

        A log that began again above the record never had it: there it is the record of the history that it goes on
        from, which other replicas appended. A version ends there when its uploader has cut it back to where its log
        begins.
        """
        known = self.appended.of_offset(offset)
        if now is not None:
            known = [at for at in known if _moment(rows, at) < now]
            begun = self.begun.last_of_any_life(now)
            if begun >= 0 and offset < int((rows.value(begun).get("queues") or {}).get(str(self.queue), 0)):
                since = [at for at in known if _moment(rows, at) > _moment(rows, begun)]
                known = since or ([] if self.unfinished else _of_history(rows, begun, self.queue, offset))
        return known[-1] if known else -1


def _moment(rows: Rows, at: int) -> Moment:
    return facts.moment(rows, np.array([at]))[0]


def _of_history(rows: Rows, begun: int, queue: int, offset: int) -> list[int]:
    """Return what anybody appended at this offset in the epochs that this beginning goes on from: an epoch has one
    record at an offset."""
    epochs = [(int(start), int(epoch)) for epoch, start in rows.value(begun).get("epochs") or ()]
    position, epoch = rows.column("position"), rows.column("epoch")
    appended = rows.where(kind="trace", f="append", queue=queue, offset=offset).tolist()
    return [at for at in appended if epoch[at] == max((e for start, e in epochs if start <= position[at]), default=-1)]


def _check_end(rows: Rows, found: Findings, version: Version, log: _Log, commit: int) -> None:
    """Check that P is where the last record ends that stood in the uploader's log at this offset when it sent the
    version; and that the uploader had confirmed that, by then."""
    now = _moment(rows, commit) if commit >= 0 else None
    last = log.record(rows, version.end - 1, now)
    if last < 0:
        found.fact(gap=_unknown_end(version))
        return
    size = rows.value(last).get("size")
    end = int(rows.column("position")[last]) + (max(1, size) if isinstance(size, int) else 1)
    if end != version.position:
        _report_position(rows, found, version, end, last)
    if now is None:
        return
    known = log.confirms.last((*now[:2], facts.NEVER))
    if known >= 0 and _confirm(rows, known) < end and version.position != end:
        found.add(
            UPLOAD_BEYOND_CONFIRM,
            f"{version.writer} committed a manifest of queue {version.queue} at {facts.at_s(rows, commit)} whose last "
            f"record ends at log position {end}, when its confirm offset was {_confirm(rows, known)}.",
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


@dataclass(frozen=True, slots=True)
class Content:
    """Tiered records against the logs of the replicas."""

    promise: Promise = PROMISE
    needs: Needs = CONTENT

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found = Findings(PROMISE)
        tiered = rows.memo(facts.tiered)
        found.count("tiered_records", len(tiered.at))
        logs = rows.memo(facts.final_log)
        if losses.keeps(rows, context, confirmed=True):
            logs = facts.join(logs, rows.memo(facts.confirmed_appends))
        compared = pairs_occur((tiered.queue, tiered.offset), (logs.queue, logs.offset))
        found.count("tiered_records_compared", int(np.count_nonzero(compared)))
        index, queues, offsets = rows.column("index"), rows.column("queue"), rows.column("offset")
        several = tier.has_own_tiers(context)
        for one, two in _mismatches(tiered, logs, several=several):
            queue, offset = int(queues[one]), int(offsets[one])
            whose = f"the tier of {rows.text('node', one)}" if several else "the tier"
            found.add(
                TIER_LOG_MISMATCH,
                f"Queue {queue}, offset {offset}: {whose} holds another record "
                f"(position {int(rows.column('position')[one])}, epoch {int(rows.column('epoch')[one])}) than the "
                f"confirmed log of {rows.text('node', two)} (position {int(rows.column('position')[two])}, epoch "
                f"{int(rows.column('epoch')[two])}).",
                int(index[two]),
                int(index[one]),
                queue=queue,
                offset=offset,
                message=int(rows.column("message")[one]),
            )
        if several:
            _beyond_all_logs(rows, context, found, tiered)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        needs = [
            ("tiered_records", "no record of the tier was read after the run"),
            ("tiered_records_compared", "no log reported an offset that a record of the tier has"),
        ]
        return tier.judge(PROMISE, partial, context, needs)


def _mismatches(tiered: facts.Claims, logs: facts.Claims, *, several: bool) -> Iterator[tuple[int, int]]:
    """Yield (row of the tier, row of a log) of what differs. Where there are ``several`` tiers, one of them may be
    right while another one isn't, so each is held against the logs."""
    count = len(logs.at if several else tiered.at)
    for first, other in facts.conflicts(facts.join(logs, tiered) if several else facts.join(tiered, logs)):
        if not first < count <= other:
            continue
        if several:
            yield int(tiered.at[other - count]), int(logs.at[first])
        else:
            yield int(tiered.at[first]), int(logs.at[other - count])


def _beyond_all_logs(rows: Rows, context: RunContext, found: Findings, tiered: facts.Claims) -> None:
    """Check that no tier holds more than any log. After recovery everything is confirmed that any replica holds. What a
    tier holds beyond that was uploaded before it was confirmed, and cut off."""
    names = facts.brokers(rows, context)
    if not names or not set(names) <= facts.complete_nodes(rows) or not facts.has_recovered(rows):
        found.gap("not every replica was read to its end, so that it is unknown what was confirmed")
        return
    ends: dict[int, tuple[int, int]] = {}
    for at in rows.where(kind="final", f="node").tolist():
        maximums = rows.value(at).get("maximums")
        if maximums is None:
            found.gap(f"{rows.text('node', at)} did not report where its queues end")
            return
        for queue, end in maximums.items():
            ends[int(queue)] = max(ends.get(int(queue), (-1, -1)), (int(end), at))
    index = rows.column("index")
    last = int(rows.where(kind="final", f="node")[-1])
    for queue in distinct(tiered.queue).tolist():
        end, witness = ends.get(queue, (0, last))  # a queue that no replica names has no record in any log
        mine = tiered.only((tiered.queue == queue) & (tiered.offset >= end))
        for at, offset in zip(mine.at.tolist(), mine.offset.tolist(), strict=True):
            found.add(
                UPLOAD_BEYOND_CONFIRM,
                f"The tier of {rows.text('node', at)} holds offset {offset} of queue {queue}, but no replica's log "
                f"goes further than {end}.",
                int(index[witness]),
                int(index[at]),
                queue=queue,
                offset=offset,
                message=int(rows.column("message")[at]),
            )


def create(options: Options) -> Sequence[Bound | Positions | Content | Versions]:
    return (Bound(), Positions(), Content(), Versions())
