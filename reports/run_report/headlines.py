"""The title of a run: what happened, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.judging.registry import registry
from chaos.verdict import RunVerdict, Validity
from reports.run_report.diagnosis import diagnosis
from reports.run_report.story import numbered
from reports.summary import OBJECT_LABELS, Story

#: The promise without which nobody can say that nothing was lost.
DURABILITY = "durability"
#: Of each kind of violation what it says: of one, and of ``{n}``; where only one is given, the number stands behind it.
#: The worst for who uses the system stands first: its sentence is the title of the run.
HEADLINES: Mapping[str, tuple[str, ...]] = {
    "lost": ("An acknowledged message was lost", "{n} acknowledged messages were lost"),
    "not-linearizable": (
        "No order of changes explains what clients saw of an object",
        "No order of changes explains what clients saw of {n} objects",
    ),
    "corrupt": ("A message came back with other content", "{n} messages came back with other content"),
    "topic-lost": ("An acknowledged topic was lost", "{n} acknowledged topics were lost"),
    "topic-returned": ("A deleted topic came back", "{n} deleted topics came back"),
    "never-delivered": ("An accepted message was never delivered", "{n} accepted messages were never delivered"),
    "rolled-back-delivered": (
        "A message of a rolled back transaction was delivered",
        "{n} messages of rolled back transactions were delivered",
    ),
    "rollback": ("What a reader had read was taken back", "{n} messages that had been read were taken back"),
    "early-retention": ("Retention removed what had to be kept",),
    "commit-regression": ("A consumer group went back",),
    "withheld": ("A message was withheld from a consumer group", "{n} messages were withheld from consumer groups"),
    "skipped": ("A consumer group skipped a message", "Consumer groups skipped {n} messages"),
    "never-committed": ("A consumer group was given an offset that it had never committed",),
    "double-owner": ("Two consumers of one group owned a queue at once",),
    "commit-beyond-end": ("A committed offset lies beyond the end of its queue",),
    "replica-divergence": ("Replicas hold different records", "Replicas differ in {n} places"),
    "offset-conflict": ("An offset holds two messages", "{n} offsets hold two messages"),
    "metadata-conflict": ("Replicas disagree on metadata",),
    "offsets-lost": ("A replica lost a consumer group's offset", "Replicas lost {n} offsets of consumer groups"),
    "unexpected": ("A message appeared that nobody sent", "{n} messages appeared that nobody sent"),
    "duplicate-append": ("A message was stored twice", "{n} messages were stored more often than they were sent"),
    "false-acknowledgement": (
        "A message was acknowledged with too few copies",
        "{n} messages were acknowledged with too few copies",
    ),
    "out-of-order": ("An orderly group was given messages out of order",),
    "producer-reorder": ("Two messages of one producer changed places", "{n} messages overtook one of their producer"),
    "reorder": ("A message overtook an acknowledged one", "{n} messages overtook an acknowledged one"),
    "consumer-reorder": ("A pull delivered messages out of order",),
    "over-full": ("A pull delivered more than it asked for",),
    "too-early": ("A delayed message came too early", "{n} delayed messages came too early"),
    "topic-unasked": ("A topic appeared that nobody created",),
    "unavailable": ("A queue had no service for longer than permitted",),
    "not-recovered": ("The system did not recover after the faults",),
    "entry-lost": ("A controller dropped a committed entry", "Controllers dropped {n} committed entries"),
    "two-masters": ("Two masters of one epoch",),
    "unelected-leader": ("A controller led without the votes of a majority",),
    "two-votes": ("A controller voted twice in one term",),
    "old-leader-answered": ("A deposed controller answered as leader",),
    "confirm-rollback": ("A replica lost what it had confirmed",),
    "election-outside-set": ("A replica was elected that was not in sync", "{n} elections of replicas out of sync"),
    "confirm-beyond-log": ("A node confirmed what its disk did not hold",),
    "confirm-beyond-set": ("A master confirmed what a replica in sync did not have",),
    "false-sync": ("A node reported as durable what its disk did not hold",),
    "false-ack": ("A master counted an acknowledgement that was not durable",),
    "tier-missing-object": ("The tier lacks what its manifest names",),
    "tier-gap": ("The tier has a gap", "The tier has {n} gaps"),
    "tier-log-mismatch": ("The tier holds other records than the log", "The tier differs from the log in {n} places"),
    "tier-read-mismatch": ("The tier reads differently from the log",),
    "upload-beyond-confirm": ("The tier was given records that nobody had confirmed",),
    "tier-offset-regression": ("A manifest of the tier went back",),
    "manifest-epoch-regression": ("A deposed master overwrote the tier's manifest",),
    "stale-uploader": ("A node that was not master wrote to the tier",),
    "foreign-delete": ("A node that was not master deleted from the tier",),
    "object-returned": ("A deleted object is in the tier again",),
    "tier-overlap": ("The tier holds an offset twice", "The tier holds {n} offsets twice"),
    "metadata-divergence": ("A replica's view of the tier differs from the store's",),
    "member-behind": ("A replica in sync lacked confirmed records",),
    "set-not-counted": ("A master counted on fewer replicas than the controllers had agreed on",),
    "too-few-in-sync": ("A message was acknowledged with too few replicas in sync",),
    "max-offset-regression": ("The end of a queue went back",),
    "wrong-next-offset": ("A reader was sent to a wrong offset",),
    "unreadable": ("A kept message was answered as missing", "{n} kept messages were answered as missing"),
    "stalled": ("Readers got nothing, though messages were there",),
    "earlier-term-committed": ("A leader committed an entry of an earlier term by itself",),
    "vote-not-durable": ("A controller gave a vote that its disk did not hold",),
    "term-regression": ("The term of a controller went back",),
    "epoch-regression": ("An epoch went back",),
    "epochs-forgotten": ("A replica came back with other epochs than its records have",),
    "life-forgotten": ("A replica forgot an incarnation",),
    "damage-without-fault": ("A replica declared its disk damaged, though nothing had harmed it",),
    "duplicate-id": ("Two brokers got one id",),
    "membership-jump": ("The members of the controllers changed by more than one step",),
    "acknowledged-switch-undone": ("A switch was acknowledged and never done",),
    "refused-switch-done": ("A switch was refused and done all the same",),
    "view-went-back": ("A node showed an older state than before",),
    "view-not-a-prefix": ("A node showed a state that never was",),
    "wrong-answer": ("A request was answered wrongly", "{n} requests were answered wrongly"),
    "unanswered": ("A request was never answered as documented", "{n} requests were never answered as documented"),
    "change-unserved": ("No change of an object took effect for longer than permitted",),
    "read-unanswered": ("A controller answered no read for longer than permitted",),
    "needless-election": ("A master was replaced without a cause", "{n} elections without a cause"),
    "needless-change": ("A set of replicas was changed without a cause",),
    "late-election": ("A dead master was replaced too late",),
    "leader-deserted": ("A controller left a leader that it had just heard",),
    "tier-stalled": ("The tier stood still after the recovery",),
}


def headline(verdict: RunVerdict, story: Story) -> str:
    """Return what happened, without a full stop."""
    if verdict.validity is Validity.INVALID:
        return of_violations(verdict.anomaly_counts())
    if verdict.validity is Validity.VALID:
        return _survived(verdict, story)
    return diagnosis(verdict).title


def of_violations(counts: Mapping[str, int]) -> str:
    """Return the sentence of the worst of these kinds of violations, which occurred so often."""
    name = worst(counts)
    number = counts.get(name, 0)
    one, *many = HEADLINES.get(name) or (_meaning(name),)
    if number <= 1:
        return one
    return many[0].format(n=f"{number:,}") if many else f"{one}, {number:,} times"


def worst(names: Mapping[str, int]) -> str:
    """Return the kind that a title is about; "" of none. One that has no sentence of ours comes last."""
    ranks = {name: place for place, name in enumerate(HEADLINES)}
    return min(names, key=lambda name: ranks.get(name, len(ranks)), default="")


def _meaning(name: str) -> str:
    """Return what a law declares of a kind, as a sentence begins; the name itself of one that no law here declares."""
    known = (kind.meaning for promise in registry().promises for kind in promise.anomalies if kind.name == name)
    text = next(known, "") or f"A promise was broken: {name or 'it is not recorded which'}"
    return text[:1].upper() + text[1:].rstrip(".")


def _kept(verdict: RunVerdict) -> set[str]:
    return {law.law for law in verdict.laws if law.validity is Validity.VALID}


def _survived(verdict: RunVerdict, story: Story) -> str:
    counts = story.counts
    faults, masters = counts.get("effective faults", 0), counts.get("master terms", 0)
    through = [numbered(faults, "fault"), *([numbered(masters, "master")] if masters else [])]
    lost = sum(one.count for one in verdict.permitted)
    begin = "Nothing was lost" if DURABILITY in _kept(verdict) else "Every promise that was checked was kept"
    if "acknowledged writes" in counts:
        what = numbered(counts["acknowledged writes"], "acknowledged write")
    else:
        what = numbered(sum(counts.get(name, 0) for name in OBJECT_LABELS.values()), "answered call")
    if lost:
        begin = f"{lost:,} lost, as the profile permits"
    return f"{begin}: {what} {'went through' if lost else 'survived'} {' and '.join(through)}"
