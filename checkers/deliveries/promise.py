"""What groups are promised of the messages that they are given, and what can be wrong with it."""

from __future__ import annotations

from chaos.law import AnomalyKind, Harm, Promise, RunContext
from chaos.workload import Use

TOO_EARLY = "too-early"
ROLLED_BACK = "rolled-back-delivered"
NEVER_DELIVERED = "never-delivered"
NEVER_RETURNED = "never-returned"
NEVER_DELIVERED_BY_POLICY = "never-delivered-by-policy"
WITHHELD = "withheld"
OUT_OF_ORDER = "out-of-order"
PROMISE = Promise(
    name="deliveries",
    place=101,
    meaning="Groups are given all messages, orderly ones in order; delays are kept, and transactions decide.",
    anomalies=(
        AnomalyKind(
            name=TOO_EARLY,
            meaning="a delayed message was delivered before its time",
            headline=("A delayed message came too early", "{n} delayed messages came too early"),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=ROLLED_BACK,
            meaning="a message was delivered whose transaction was rolled back",
            headline=(
                "A message of a rolled back transaction was delivered",
                "{n} messages of rolled back transactions were delivered",
            ),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=NEVER_DELIVERED,
            meaning="a delayed message, or one whose transaction was committed, was accepted and never came",
            headline=("An accepted message was never delivered", "{n} accepted messages were never delivered"),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=NEVER_RETURNED,
            meaning="a message that a member sent back was not given to its group again",
            headline=(
                "A message that was sent back never came again",
                "{n} messages that were sent back never came again",
            ),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=NEVER_DELIVERED_BY_POLICY,
            meaning="a message never came (again), under a profile that permits it",
            lawful=True,
            by_policy=True,
        ),
        AnomalyKind(
            name=WITHHELD,
            meaning="a message is in its queue, and a group that read on was never given it",
            headline=(
                "A message was withheld from a consumer group",
                "{n} messages were withheld from consumer groups",
            ),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=OUT_OF_ORDER,
            meaning="a group that reads in order was given an offset before one below it, or an item before an"
            " earlier one of its key",
            headline=("An orderly group was given messages out of order",),
            harm=Harm.CLIENTS,
        ),
    ),
)


def no_deliveries(context: RunContext) -> str:
    """Say why nothing is owed; "" where it is."""
    return "" if Use.DELIVERIES in context.uses else f"no workload uses {Use.DELIVERIES}"
