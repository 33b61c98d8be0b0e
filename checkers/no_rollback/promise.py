"""What the law *no-rollback* promises, and the names of what breaks it."""

from __future__ import annotations

from chaos.events import Acked
from chaos.findings import decide
from chaos.law import AnomalyKind, Harm, Partial, Promise, RunContext
from chaos.verdict import Verdict
from checkers.no_rollback.cuts import CONFIRM_ROLLBACK

ROLLBACK = "rollback"

CONFIRM_BEYOND_SET = "confirm-beyond-set"

MAX_OFFSET_REGRESSION = "max-offset-regression"

PROMISE = Promise(
    name="no-rollback",
    place=30,
    meaning="What was read stays, and what was confirmed stays, whichever replica is master.",
    counts={"read": "read"},
    anomalies=(
        AnomalyKind(
            name=ROLLBACK,
            meaning="an offset that was read holds another message later, or none",
            headline=("What a reader had read was taken back", "{n} messages that had been read were taken back"),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=CONFIRM_ROLLBACK,
            meaning="what a replica had confirmed is gone from its log, or from that of a later master",
            headline=("A replica lost what it had confirmed",),
        ),
        AnomalyKind(
            name=CONFIRM_BEYOND_SET,
            meaning="a master confirmed what a member of its SyncStateSet did not have",
            headline=("A master confirmed what a replica in sync did not have",),
            decision=(Acked,),
        ),
        AnomalyKind(
            name=MAX_OFFSET_REGRESSION,
            meaning="a master showed a lower end of a queue than a replica had shown before",
            headline=("The end of a queue went back",),
        ),
    ),
)


def decided(partial: Partial, context: RunContext) -> Verdict:
    needs = [("read", "nothing was read, so nothing could roll back")]
    return decide(PROMISE, partial, needs=needs, unless=context.no_queues)
