"""Every replica's view of a manifest equals what the store holds at that version, and after recovery none is stale."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.driver import Evidence
from chaos.judging.findings import Findings
from chaos.law import AnomalyKind, Key, Needs, Partial, Promise, Rows, RunContext
from chaos.verdict import Verdict
from checkers import _views as views
from checkers._views import reads, tier
from checkers._views.reads import own

METADATA_DIVERGENCE = "metadata-divergence"
PROMISE = Promise(
    name="tier-metadata",
    place=70,
    meaning="Every replica's view of a manifest equals the store's of that version, and none is stale in the end.",
    anomalies=(
        AnomalyKind(
            name=METADATA_DIVERGENCE,
            meaning="a replica's view of a manifest differs from the store's, or is stale after recovery",
        ),
    ),
)


NEEDS = Needs(
    key=Key.RUN,
    rows=(
        own("trace", "tier_view", "store_cas"),
        own("final", "view", "manifest", "complete"),
        reads.RUN,
        *reads.REPLICAS,
    ),
    columns=(*reads.BASIC, *reads.RECORDS),
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
        if not rows.memo(tier.manifests):
            found.gap("the object store told of no manifest, so that nobody's view can be compared with it")
            found.count("views", 1)
            return found.partial()
        for at in rows.where(kind="trace", f="tier_view"):
            found.count("views", 1)
            _equals_store(rows, found, int(at))
        for at in rows.where(kind="final", f="view"):
            found.count("views", 1)
            _equals_store(rows, found, int(at))
            _is_current(rows, found, int(at))
        for at in rows.where(kind="final", f="manifest"):  # what the store itself still holds
            _equals_store(rows, found, int(at))
            _is_current(rows, found, int(at))
        _nobody_is_ignorant(rows, context, found)
        return found.partial()

    def judge(self, partial: Partial, context: RunContext) -> Verdict:
        return tier.judge(PROMISE, partial, context, [("views", "no replica told its view of a manifest")])


def _equals_store(rows: Rows, found: Findings, at: int) -> None:
    queue, index = int(rows.column("queue")[at]), rows.column("index")
    number = int(rows.value(at).get("version", -1))
    stored = next((v for v in rows.memo(tier.manifests).get(queue, ()) if v.version == number), None)
    node = rows.text("node", at)
    if stored is None:
        found.add(
            METADATA_DIVERGENCE,
            f"{node} believes in version {number} of the manifest of queue {queue} ({views.at_s(rows, at)}), which the "
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


def _is_current(rows: Rows, found: Findings, at: int) -> None:
    """After recovery a replica knows at least the version that was current when the drain began."""
    queue, number = int(rows.column("queue")[at]), int(rows.value(at).get("version", -1))
    drain = views.phase_time(rows, "drain")
    if drain < 0 or not views.has_recovered(rows):
        return
    times, index = rows.column("time_ns"), rows.column("index")
    due = [v for v in rows.memo(tier.manifests).get(queue, ()) if times[v.at] < drain]
    if due and number < due[-1].version:
        found.add(
            METADATA_DIVERGENCE,
            f"After recovery {rows.text('node', at)} still believes in version {number} of the manifest of queue "
            f"{queue}, although version {due[-1].version} was committed at {views.at_s(rows, due[-1].at)}, before the "
            "drain.",
            int(index[due[-1].at]),
            int(index[at]),
            queue=queue,
            offset=due[-1].end,
        )


def _nobody_is_ignorant(rows: Rows, context: RunContext, found: Findings) -> None:
    """After recovery each replica knows every manifest that was committed before the drain began."""
    drain, index, times = views.phase_time(rows, "drain"), rows.column("index"), rows.column("time_ns")
    told = rows.where(kind="final", f="view")
    if drain < 0 or not views.has_recovered(rows) or not len(told):
        return
    known = {(rows.text("node", at), int(rows.column("queue")[at])) for at in told}
    for node in sorted(set(views.brokers(rows, context)) & views.complete_nodes(rows)):
        for queue, versions in rows.memo(tier.manifests).items():
            due = [version for version in versions if times[version.at] < drain]
            if due and (node, queue) not in known:
                found.add(
                    METADATA_DIVERGENCE,
                    f"After recovery {node} knows no manifest of queue {queue} at all, although version "
                    f"{due[-1].version} was committed at {views.at_s(rows, due[-1].at)}, before the drain.",
                    int(index[due[-1].at]),
                    queue=queue,
                    offset=due[-1].end,
                )


def create(options: Options) -> TierMetadata:
    return TierMetadata()
