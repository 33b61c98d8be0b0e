"""Every replica's view of a manifest equals what the store holds at that version, and after recovery none is stale."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaos.driver import Evidence
from chaos.events import TierView
from chaos.findings import Findings, decide
from chaos.kernel import Key, Needs
from chaos.law import AnomalyKind, Law, Partial, Promise, RunContext
from chaos.law import Key as LawKey
from chaos.law import Rows as LawRows
from chaos.operations import HarnessRow, OwnTierDamage, OwnTierQueue, OwnTierUnread
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import losses, reads, retention, tier
from checkers._facts.arrays import Ints, tops
from checkers._facts.faults import calm_times
from checkers._facts.garbage import REAL_TIME
from checkers._facts.reads import everywhere, own

METADATA_DIVERGENCE = "metadata-divergence"
STALE_VIEW = "stale-view"
#: In calm time a replica knows of a version so long after it was committed; elsewhere than in virtual time so many
#: times that (:data:`checkers._facts.garbage.REAL_TIME`).
VIEW_S = 2.0
PROMISE = Promise(
    name="tier-metadata",
    place=70,
    meaning="Every replica's view of a manifest equals the store's of that version, and none is stale in the end.",
    anomalies=(
        AnomalyKind(
            name=METADATA_DIVERGENCE,
            meaning="a replica's view of a manifest differs from the store's, or is stale after recovery",
            headline=("A replica's view of the tier differs from the store's",),
            decision=(TierView,),
        ),
        AnomalyKind(
            name=STALE_VIEW, meaning="in calm time a replica learned of a manifest's version later than the bound"
        ),
    ),
)

NO_MANIFEST = "the object store reported no manifest, so that no view can be compared with one"
NO_VIEWS = "no replica reported its view of a manifest after the run, although there was one before the drain"

NEEDS = Needs(
    key=Key.QUEUE,
    rows=(
        own("trace", "tier_view", "store_cas"),
        own("final", "view", "manifest"),
        everywhere("final", "topics", "complete"),
        *losses.TERMS,
        *(reads.RUN, reads.FAULTS),
        *reads.REPLICAS,
    ),
    columns=(*reads.BASIC, *reads.RECORDS, *losses.COLUMNS, "process", "type"),
    evidence=(Evidence.TIER,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


@dataclass(frozen=True, slots=True)
class TierMetadata:
    promise: Promise = PROMISE
    needs: Needs = NEEDS

    def examine(self, rows: Rows, context: RunContext) -> Partial:
        if not tier.has_tier(context):
            return Partial()
        found = Findings(PROMISE)
        found.count("manifest_versions", sum(map(len, rows.memo(tier.manifests).values())))
        found.count("views", len(rows.where(kind="trace", f="tier_view")))
        for at in _doubtful(rows).tolist():
            _equals_store(rows, found, at)
        newest = _Newest.of(rows, context)
        if newest.lost:
            found.count("lost_queues", len(newest.lost))
        for at in rows.where(kind="final", f="view"):
            found.count("views", 1)
            _equals_store(rows, found, int(at))
            _is_current(rows, found, int(at), newest.known)
        for at in rows.where(kind="final", f="manifest"):  # what the store itself still holds
            _equals_store(rows, found, int(at))
            _is_current(rows, found, int(at), newest.stored)
            _names_its_queue(rows, found, int(at))
        _nobody_is_ignorant(rows, context, found, newest.known)
        if not context.unfinished:
            _nobody_is_late(rows, context, found, newest.lost)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        """Report of a run without any manifest only that; a replica that reported no view is ignorant if others did."""
        counts, found = dict(partial.counts), Findings(PROMISE)
        reported, versions = counts.pop("views_after", 0), counts.pop("manifest_versions", 0)
        if not versions:
            partial, counts = replace(partial, anomalies=(), facts=()), {"views": 1}
            found.gap(NO_MANIFEST)
        for fact in partial.facts:
            if reported:
                found.add(METADATA_DIVERGENCE, fact["text"], fact["row"], queue=fact["queue"], offset=fact["offset"])
            else:
                found.gap(NO_VIEWS)
        known = replace(partial, counts=counts).merge(found.partial())
        return tier.judge(PROMISE, known, context, [("views", "no replica reported its view of a manifest")])


def _believed(rows: Rows) -> tuple[Ints, Ints]:
    """Return the rows by which replicas reported their views, and which version each believes in."""
    views = rows.where(kind="trace", f="tier_view")
    number = np.full(len(views), -1, np.int64)
    for form in rows.forms(views):
        number[form.at] = form.whole(form.value.get("version", -1))
    return views, number


def _doubtful(rows: Rows) -> Ints:
    """Return the views that may differ from what the store had. Of all others whole columns say that they don't."""
    views, number = rows.memo(_believed)
    queue, hashes, ends = (rows.column(name)[views] for name in ("queue", "hash", "offset"))
    is_equal = np.zeros(len(views), np.bool_)
    for one, versions in rows.memo(tier.manifests).items():
        mine = np.flatnonzero(queue == one)
        is_equal[mine] = versions.have(number[mine], hashes[mine], ends[mine])
    found: Ints = views[~is_equal]
    return found


def _equals_store(rows: Rows, found: Findings, at: int) -> None:
    queue, index = int(rows.column("queue")[at]), rows.column("index")
    number = int(rows.value(at).get("version", -1))
    versions = rows.memo(tier.manifests).get(queue)
    stored = versions.find(number) if versions is not None else None
    node = rows.text("node", at)
    if stored is None:
        found.add(
            METADATA_DIVERGENCE,
            f"{node} believes in version {number} of the manifest of queue {queue} ({facts.at_s(rows, at)}), which the "
            "object store never had.",
            int(index[at]),
            queue=queue,
        )
    elif (stored.hash, stored.end) != (int(rows.column("hash")[at]), int(rows.column("offset")[at])):
        found.add(
            METADATA_DIVERGENCE,
            f"{node} holds another content of version {number} of the manifest of queue {queue} than the object store "
            f"(T {int(rows.column('offset')[at])} against {stored.end}).",
            int(index[stored.at]),
            int(index[at]),
            queue=queue,
            offset=stored.end,
        )


@dataclass(frozen=True, slots=True)
class _Newest:
    """Of each queue the newest version that was committed before the drain began: ``stored`` is what the store must
    still hold after recovery; ``known`` is what each replica must know.

    A version is to be known if some replica knew it when the drain began, or if it was committed ``upload_s`` before:
    an uploader that lost the answer to its last commit has that long to find out. Nothing is to be known of ``lost``
    queues."""

    stored: Mapping[int, tier.Version]
    known: Mapping[int, tier.Version]
    lost: frozenset[int] = frozenset()

    @classmethod
    def of(cls, rows: Rows, context: RunContext) -> _Newest:
        drain = facts.phase_time(rows, "drain")
        if drain < 0 or not facts.has_recovered(rows):
            return cls({}, {})
        times, heard, lost = rows.column("time_ns"), _heard(rows, drain), _lost(rows, context)
        long_ago = drain - int(tier.upload_bound_s(context) * 1e9)
        stored, known = dict[int, tier.Version](), dict[int, tier.Version]()
        for queue, versions in rows.memo(tier.manifests).items():
            since_ns = times[versions.at]
            due = (since_ns < drain) & ((versions.number <= heard.get(queue, -1)) | (since_ns < long_ago))
            for newest, places in ((stored, since_ns < drain), (known, due & (queue not in lost))):
                if places.any():
                    newest[queue] = versions[int(np.flatnonzero(places)[-1])]
        return cls(stored, known, lost)


def _lost(rows: Rows, context: RunContext) -> frozenset[int]:
    """Return the queues that had a manifest, and that no replica has any more after recovery. Where the profile permits
    it, their topic's creation was lost with a log: nobody takes their manifests over, so nobody hears of later
    versions."""
    maximums = [rows.value(at).get("maximums") for at in rows.where(kind="final", f="node").tolist()]
    if losses.keeps(rows, context, confirmed=True) or not maximums or None in maximums:
        return frozenset()
    return frozenset(rows.memo(tier.manifests)) - {int(queue) for queues in maximums for queue in queues or ()}


def _heard(rows: Rows, before_ns: int) -> Mapping[int, int]:
    """Return by queue the newest version that any replica knew by then."""
    views, number = rows.memo(_believed)
    early = rows.column("time_ns")[views] < before_ns
    queues, newest = tops(rows.column("queue")[views[early]], number[early])
    return dict(zip(queues.tolist(), newest.tolist(), strict=True))


def _is_current(rows: Rows, found: Findings, at: int, newest: Mapping[int, tier.Version]) -> None:
    """Check that after recovery nobody is behind the version that was to be known when the drain began."""
    queue, number = int(rows.column("queue")[at]), int(rows.value(at).get("version", -1))
    due, index = newest.get(queue), rows.column("index")
    if due is not None and number < due.version:
        found.add(
            METADATA_DIVERGENCE,
            f"After recovery {rows.text('node', at)} still believes in version {number} of the manifest of queue "
            f"{queue}, although version {due.version} was committed at {facts.at_s(rows, due.at)}, before the drain.",
            int(index[due.at]),
            int(index[at]),
            queue=queue,
            offset=due.end,
        )


def _names_its_queue(rows: Rows, found: Findings, at: int) -> None:
    """Check that after recovery the store's manifest names the queue that replicas have under its number, if any has
    one. The number of a queue that was lost goes to another, and with it the manifest."""
    queue, manifest = int(rows.column("queue")[at]), retention.content(rows, at)
    holders = rows.memo(_queues).get(queue, {})
    named = (str(manifest.get("topic", "")), int(manifest.get("queue_id", -1)))
    if named[0] and holders and named not in holders:
        (topic, number), witness = next(iter(holders.items()))
        found.add(
            METADATA_DIVERGENCE,
            f"After recovery the manifest of queue {queue} names queue {named[1]} of topic {named[0]}, but "
            f"{rows.text('node', witness)} has queue {number} of topic {topic} there.",
            int(rows.column("index")[witness]),
            int(rows.column("index")[at]),
            queue=queue,
        )


def _queues(rows: Rows) -> Mapping[int, Mapping[tuple[str, int], int]]:
    """Return by queue with a manifest the topics and numbers in them that replicas gave for it after recovery, each
    with the row of one."""
    found: dict[int, dict[tuple[str, int], int]] = {}
    known = sorted(rows.memo(tier.manifests))
    if facts.has_recovered(rows):
        for at in rows.where(kind="final", f="topics").tolist():
            for topic, made in (rows.value(at).get("topics") or {}).items():
                first, count = int(made.get("first_index", 0)), int(made.get("queues", 0))
                for queue in known[bisect_left(known, first) : bisect_left(known, first + count)]:
                    found.setdefault(queue, {})[topic, queue - first] = at
    return found


def _nobody_is_ignorant(rows: Rows, context: RunContext, found: Findings, newest: Mapping[int, tier.Version]) -> None:
    """Check that after recovery each replica knows every manifest that was to be known when the drain began. Where
    nobody reported a view of any queue in this shard, other shards know whether views were reported at all."""
    reported, index = rows.where(kind="final", f="view"), rows.column("index")
    found.count("views_after", len(reported))
    known = {(rows.text("node", at), int(rows.column("queue")[at])) for at in reported}
    for node in sorted(set(facts.brokers(rows, context)) & facts.complete_nodes(rows)):
        for queue, due in newest.items():
            if (node, queue) not in known:
                text = (
                    f"After recovery {node} knows no manifest of queue {queue} at all, although version {due.version} "
                    f"was committed at {facts.at_s(rows, due.at)}, before the drain."
                )
                row = int(index[due.at])
                if len(reported):
                    found.add(METADATA_DIVERGENCE, text, row, queue=queue, offset=due.end)
                else:
                    found.fact(text=text, row=row, queue=int(queue), offset=int(due.end))


def _nobody_is_late(rows: Rows, context: RunContext, found: Findings, lost: frozenset[int]) -> None:
    """Check that in calm time each replica learns of each version within the bound, and needs nothing else to happen
    for that."""
    times, index, queues = rows.column("time_ns"), rows.column("index"), rows.column("queue")
    bound_ns = int(VIEW_S * (1.0 if context.one_clock else REAL_TIME) * 1e9)
    (reported, numbers), calm = rows.memo(_believed), calm_times(rows)
    if not len(reported) or not calm:
        return
    nodes = rows.column("node")[reported]
    began, ended = (np.array(part, dtype=np.int64) for part in zip(*calm, strict=True))
    for queue, versions in rows.memo(tier.manifests).items():
        since_ns = times[versions.at]
        place = np.searchsorted(began, since_ns, "right") - 1
        due = (place >= 0) & (began[place] + bound_ns <= since_ns) & (since_ns + bound_ns < ended[place])
        due &= queue not in lost
        for name in facts.brokers(rows, context, int(since_ns[0])) if due.any() else ():
            mine = reported[(queues[reported] == queue) & (nodes == rows.code("node", name))]
            number = numbers[np.searchsorted(reported, mine)]
            order = np.argsort(times[mine], kind="stable")
            known, heard_ns = np.maximum.accumulate(number[order]), times[mine[order]]
            first = np.searchsorted(known, versions.number)
            late_ns = np.append(heard_ns, facts.NEVER)[first] - since_ns
            late = np.flatnonzero(due & (late_ns > bound_ns))

            def report(one: int, name: str = name, versions: tier.Versions = versions, late_ns: Ints = late_ns) -> None:
                at, never = int(versions.at[one]), late_ns[one] > facts.NEVER >> 1
                found.add(
                    STALE_VIEW,
                    f"{name} {'never learned' if never else f'learned {late_ns[one] / 1e9:.1f} s late'} of version "
                    f"{versions.number[one]} of the manifest of queue {versions.queue}, which was committed at "
                    f"{facts.at_s(rows, at)}, with no fault in the way; {bound_ns / 1e9:g} s are permitted.",
                    int(index[at]),
                    queue=versions.queue,
                    offset=int(versions.end[one]),
                )

            found.add_each(
                STALE_VIEW,
                late,
                report,
                queues=np.full(len(late), queue),
                acted_ns=facts.since_load_ns(rows, versions.at[late]),
            )


class OwnNotes(Law):
    """Where each replica has a tier of its own, or all share one: the notes of it against the files that are there."""

    promise = PROMISE
    key = LawKey.RUN
    reads = (OwnTierQueue, OwnTierDamage, OwnTierUnread, HarnessRow)
    evidence = (Evidence.TIER_CONTENT,)
    part = "what each replica notes of its own tier"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        if not tier.has_own_tiers(context):
            return Partial() if tier.has_tier(context) else tier.NO_TIER
        found = Findings(PROMISE)
        found.not_owed(context.no_queues)
        found.count("tier_queues", len(rows.where(kind="final", f="tier_queue")))
        for at in rows.where(kind="final", f="tier_unread").tolist():
            found.gap(f"{tier.of_node(rows.text('node', at))} was not read")
        for at in rows.where(kind="final", f="tier_damage").tolist():
            damage = rows.value(at)
            if damage.get("about") == "metadata":
                found.add(
                    METADATA_DIVERGENCE,
                    f"After the run it is noted of {tier.of_node(rows.text('node', at))} what is not so: "
                    f"{damage.get('text', 'no reason was recorded')}.",
                    int(rows.column("index")[at]),
                    queue=int(rows.column("queue")[at]),
                )
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        """Where replicas have no tiers of their own, nobody counted them."""
        needs = [("tier_queues", "no replica's tier was read after the run")] if partial.counts else []
        return decide(PROMISE, partial, needs=needs)


def create(options: Options) -> Sequence[TierMetadata | OwnNotes]:
    return (TierMetadata(), OwnNotes())
