"""Only the master of the newest epoch writes to the tier, and it stops at the step in which it loses the role.

Where nodes don't report their requests, they are asked for their role and for how much they have uploaded themselves. A
node that was never seen in another role than slave has no business there.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from chaos.driver import Evidence
from chaos.events import Role, StoreCas, StoreDelete, StorePut, TierCut, TierRequest, TierStop
from chaos.findings import Findings, decide
from chaos.law import AnomalyKind, Key, Law, Partial, Promise
from chaos.law import Rows as LawRows
from chaos.operations import BrokerState, FaultRow, HarnessRow, UploadsOfReplica
from chaos.shard_rows import Rows
from chaos.verdict import Verdict
from checkers import _facts as facts
from checkers._facts import tier
from checkers._facts.arrays import Ints
from checkers._facts.tier import Versions

WRITES = ("put", "cas", "delete")
#: What the store says of a write that took effect.
EFFECTS = {"store_put": "created", "store_cas": "applied", "store_delete": "deleted"}
#: What an uploader makes of a manifest that contradicts its log.
DECISIONS = ("tier_stop", "tier_cut")


MANIFEST_EPOCH_REGRESSION = "manifest-epoch-regression"
STALE_UPLOADER = "stale-uploader"
FOREIGN_DELETE = "foreign-delete"
SUCCESSOR_JUDGED = "successor-judged"
PROMISE = Promise(
    name="single-uploader",
    place=50,
    meaning="Only the master of the newest epoch writes to the tier.",
    anomalies=(
        AnomalyKind(
            name=MANIFEST_EPOCH_REGRESSION,
            meaning="a version of a manifest carries a lower epoch than the one before it",
            headline=("A deposed master overwrote the tier's manifest",),
            decision=(StoreCas,),
        ),
        AnomalyKind(
            name=STALE_UPLOADER,
            meaning="a write to the tier came from a node that was not the master of its epoch",
            headline=("A node that was not master wrote to the tier",),
            decision=(TierRequest, StorePut, StoreCas, StoreDelete),
        ),
        AnomalyKind(
            name=FOREIGN_DELETE,
            meaning="a deletion in the tier came from a node that was not master",
            headline=("A node that was not master deleted from the tier",),
            decision=(TierRequest, StoreDelete),
        ),
        AnomalyKind(
            name=SUCCESSOR_JUDGED,
            meaning="an uploader gave up a queue, or was about to cut its manifest, because of a version that a later "
            "master had written",
            decision=(TierStop, TierCut),
        ),
    ),
)


#: What a node was meanwhile is unknown, if it reported its role less often.
SEEN_WITHIN_NS = 5_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """None."""


class SingleUploader(Law):
    promise = PROMISE
    key = Key.QUEUE
    reads = (StoreCas, StorePut, StoreDelete, TierRequest, TierStop, TierCut, Role, HarnessRow)
    evidence = (Evidence.TIER, Evidence.ROLES)
    on_prefix = True

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        if not tier.has_tier(context):
            return tier.NO_TIER
        found = Findings(PROMISE)
        found.not_owed(context.no_queues)
        found.count("manifest_versions", sum(len(known) for known in rows.memo(tier.manifests).values()))
        _epochs(rows, found)
        _requests(rows, found)
        _decisions(rows, found)
        if not context.unfinished:  # who was master may be reported later
            _unreported_writes(rows, found)
            _writers(rows, found)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        needs = [
            ("manifest_versions", "no manifest was committed"),
            ("write_requests", "no broker reported its requests to the object store"),
        ]
        return decide(PROMISE, partial.merge(Partial(gaps=_unreported_by_all(partial))), needs=needs)


def _epochs(rows: Rows, found: Findings) -> None:
    """Check that epochs never fall along the versions of a manifest."""
    for before, after in tier.falls(rows, "epoch"):
        found.add(
            MANIFEST_EPOCH_REGRESSION,
            f"Version {after.version} of the manifest of queue {after.queue} was written by {after.writer} in "
            f"epoch {after.epoch}, after {before.writer} had written version {before.version} in epoch "
            f"{before.epoch}.",
            *(int(rows.column("index")[version.at]) for version in (before, after)),
            queue=after.queue,
            offset=after.end,
        )


def _requests(rows: Rows, found: Findings) -> None:
    """Check that each writing request leaves a node that is master at that point of its own step, of the epoch it
    writes for."""
    index, epoch = rows.column("index"), rows.column("epoch")
    requests, roles = (rows.where(kind="trace", f=f) for f in ("tier_request", "role"))
    verb_of, verbs = rows.labels("verb", requests)
    writes = facts.by_node(rows, requests[np.isin(verb_of, [n for n, verb in enumerate(verbs) if verb in WRITES])])
    if len(writes):
        found.count("write_requests", len(writes))
    masters = roles[[state.get("role") == "master" for state in rows.values(roles)]]
    role = facts.last_before(rows, roles, writes)
    led = np.isin(role, masters)
    allowed = led & ((epoch[writes] < 0) | (epoch[writes] == epoch[role]))
    for at, before, is_master in zip(writes[~allowed].tolist(), role[~allowed].tolist(), led[~allowed], strict=True):
        request, state = rows.value(at), rows.value(before) if before >= 0 else {}
        verb = request.get("verb")
        what = f"was {state.get('role', 'without a role')}" if not is_master else f"led epoch {int(epoch[before])}"
        found.add(
            FOREIGN_DELETE if verb == "delete" and not is_master else STALE_UPLOADER,
            f"{rows.text('node', at)} sent a {verb} of {request.get('key', 'an object')} for epoch "
            f"{int(epoch[at])} to the object store at {facts.at_s(rows, at)}, when it {what}.",
            int(index[before]) if before >= 0 else -1,
            int(index[at]),
            queue=int(rows.column("queue")[at]),
            offset=int(rows.column("offset")[at]),
        )


def _decisions(rows: Rows, found: Findings) -> None:
    """Check that no uploader judges by its own log what a later master wrote: it has been replaced, and its log is no
    measure for that any more."""
    known = rows.memo(tier.manifests)
    index, queues, epochs = (rows.column(name) for name in ("index", "queue", "epoch"))
    for f, decided in zip(DECISIONS, ("gave up", "was about to cut the manifest of"), strict=True):
        for at in rows.where(kind="trace", f=f).tolist():
            queue, epoch, judged = int(queues[at]), int(epochs[at]), int(rows.value(at).get("version", 0))
            version = known[queue].find(judged) if queue in known else None
            if version is None or not 0 <= epoch < version.epoch:
                continue
            found.add(
                SUCCESSOR_JUDGED,
                f"{rows.text('node', at)} {decided} queue {queue} at {facts.at_s(rows, at)} as the master of epoch "
                f"{epoch}, because of version {judged} of its manifest, which {version.writer} had written in epoch "
                f"{version.epoch}.",
                int(index[version.at]),
                int(index[at]),
                queue=queue,
            )


def _unreported_writes(rows: Rows, found: Findings) -> None:
    """Check that each write of a queue's object that reached the store was reported by the node that sent it. Else it
    is unknown what that node was then. Where a write has no request to know it by, its caller must have reported some
    request.

    Both mostly stand with their queue. A shard passes on, as facts, what it doesn't know and what others may not know:
    which nodes report requests at all, and those requests that name no queue."""
    asked = rows.where(kind="trace", f="tier_request")
    reported = set(rows.words("request", asked)) - {""}
    reporting = facts.nodes_of(rows, asked)
    if reporting:
        found.fact(tellers=reporting)
    queueless = rows.words("request", asked[rows.column("queue")[asked] < 0])
    if queueless:
        found.fact(requests=sorted({*queueless}))
    for f, effect in EFFECTS.items():
        at_store = rows.where(kind="trace", f=f)
        for write in rows.values(at_store[rows.column("queue")[at_store] >= 0]):
            if write.get("outcome") == effect and not (write.get("request") and write["request"] in reported):
                gap = f"{write.get('caller', 'somebody')} wrote to the object store without having reported it"
                known = {"request": write["request"]} if write.get("request") else {"caller": write.get("caller", "")}
                found.fact(gap=gap, **known)


def _unreported_by_all(partial: Partial) -> tuple[str, ...]:
    """Return a reason for each node that wrote without having reported it, by the word of all shards together."""
    reporting = {node for fact in partial.facts for node in fact.get("tellers", ())}
    requests = {request for fact in partial.facts for request in fact.get("requests", ())}
    known = {"", *reporting} if reporting else frozenset()
    return tuple(
        dict.fromkeys(
            str(fact["gap"])
            for fact in partial.facts
            if "gap" in fact and not (fact["request"] in requests if "request" in fact else fact["caller"] in known)
        )
    )


def _writers(rows: Rows, found: Findings) -> None:
    """Check that the writer of a version was master of that version's epoch, and that nobody else wrote in it."""
    known = rows.memo(facts.masters)
    if not known:
        found.gap("no broker reported its role")
        return
    for versions in rows.memo(tier.manifests).values():
        if not _written_by_masters(rows, versions, known):
            _report_writers(rows, found, versions, known)


def _written_by_masters(rows: Rows, versions: Versions, known: Set[tuple[str, int]]) -> bool:
    """Return whether each epoch of a manifest has one writer, that was its master, and each wrote in its own name."""
    writers = [versions.writers[one] for one in versions.writer.tolist()]
    terms = {*zip(writers, versions.epoch.tolist(), strict=True)}
    callers = [value.get("caller") for value in rows.values(versions.at)]
    return terms <= known and len({epoch for _, epoch in terms}) == len(terms) and callers == writers


def _report_writers(rows: Rows, found: Findings, versions: Versions, known: Set[tuple[str, int]]) -> None:
    """Report versions of a manifest that others wrote, or in another's name."""
    index = rows.column("index")
    writers: dict[int, tuple[str, int]] = {}
    for version in versions:
        first = writers.setdefault(version.epoch, (version.writer, version.at))
        caller = str(rows.value(version.at).get("caller") or version.writer)
        if caller != version.writer:
            found.add(
                STALE_UPLOADER,
                f"{caller} wrote version {version.version} of the manifest of queue {version.queue} in the name of "
                f"{version.writer or 'nobody'}.",
                int(index[version.at]),
                queue=version.queue,
                offset=version.end,
            )
            continue
        if (version.writer, version.epoch) in known and first[0] == version.writer:
            continue
        alone = first[0] == version.writer and all(epoch != version.epoch for _, epoch in known)
        if alone and not len(rows.where(kind="trace", f="role", node=version.writer)):
            found.gap(f"{version.writer or 'the writer of a manifest'} reported nothing of its roles")
            continue
        if alone and facts.may_lack_ends(rows):
            found.gap(facts.ROLE_LACKING.format(version.writer, version.epoch))
            continue
        other = f"; {first[0]} had written in that epoch too" if first[0] != version.writer else ""
        found.add(
            STALE_UPLOADER,
            f"{version.writer or 'Somebody'} wrote version {version.version} of the manifest of queue {version.queue} "
            f"in epoch {version.epoch}, of which it never was the master{other}.",
            int(index[first[1]]),
            int(index[version.at]),
            queue=version.queue,
            offset=version.end,
        )


class Polled(Law):
    """What replicas say of themselves, again and again."""

    promise = PROMISE
    key = Key.RUN
    reads = (BrokerState, UploadsOfReplica, HarnessRow, FaultRow)
    evidence = (Evidence.UPLOADS,)
    part = "who uploads, as polled"

    def examine(self, given: LawRows) -> Partial:
        rows, context = given.columns, given.run
        if not tier.has_tier(context):
            return tier.NO_TIER
        found = Findings(PROMISE)
        found.not_owed(context.no_queues)
        answers = rows.where(kind="poll", f="uploads", type="ok")
        found.count("uploads_polled", len(answers))
        for node in facts.nodes_of(rows, answers):
            _slave_uploads(rows, found, node)
        return found.partial()

    def judge(self, partial: Partial) -> Verdict:
        needs = [("uploads_judged", "of no time with uploads is it known that a slave did not become the master")]
        return decide(PROMISE, partial, needs=needs)


def _slave_uploads(rows: Rows, found: Findings, node: str) -> None:
    """Check that a node that has been a slave all the time so far uploads nothing. What it reports is ``late_s`` old at
    most. It is judged until a fault hits it: once restarted, it may take what others have uploaded for its own."""
    times, index = rows.column("time_ns"), rows.column("index")
    roles = rows.where(kind="poll", f="state", type="ok", node=node).tolist()
    answers = rows.where(kind="poll", f="uploads", type="ok", node=node).tolist()
    hits = rows.memo(facts.faults)
    for before, after in pairwise(answers):
        value = rows.value(after)
        since_ns = int(times[before]) - round(float(value.get("late_s", 0)) * 1e9)
        seen = [at for at in roles if times[at] <= times[after] + SEEN_WITHIN_NS]
        if any(rows.value(at).get("role") != "slave" for at in seen) or not _often(times, seen, since_ns, times[after]):
            continue
        if any(node in one.targets or one.may_hit(node) for one in hits if one.began_ns <= times[after]):
            continue
        found.count("uploads_judged", 1)
        had, has = (rows.value(at).get("files") or {} for at in (before, after))
        more = sum(max(0, int(has[file]) - int(had[file])) for file in had.keys() & has.keys())
        if more:
            found.add(
                STALE_UPLOADER,
                f"{node} reported at {facts.at_s(rows, after)} that it had uploaded {more} bytes more than at "
                f"{facts.at_s(rows, before)}, though it was a slave whenever it was asked so far.",
                int(index[before]),
                int(index[after]),
            )


def _often(times: Ints, seen: Sequence[int], since_ns: int, until_ns: int) -> bool:
    """Return whether these answers cover the time without a longer gap."""
    moments = [int(times[at]) for at in seen]
    around = [one for one in moments if since_ns - SEEN_WITHIN_NS <= one]
    whole = bool(around) and around[0] <= since_ns and around[-1] >= until_ns
    return whole and all(later - one <= SEEN_WITHIN_NS for one, later in pairwise(around))


def create(options: Options) -> Sequence[SingleUploader | Polled]:
    return (SingleUploader(), Polled())
