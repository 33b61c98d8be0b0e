"""What readers are promised, and what can be wrong with it."""

from __future__ import annotations

from chaos.law import AnomalyKind, Promise
from chaos.operations import Bounds, Pull

STALLED = "stalled"
TIER_STALLED = "tier-stalled"
#: What a reader in vain waits for the master to do.
GIVE, UPLOAD = "give it what stands next", "upload what stands next to the tier"
WRONG_NEXT_OFFSET = "wrong-next-offset"
UNREADABLE = "unreadable"
WOKEN_LATE = "woken-late"
STALE_MINIMUM, STALE_MAXIMUM = "stale-minimum", "stale-maximum"
PROMISE = Promise(
    name="progress",
    place=105,
    meaning="Readers are given what is there, are sent on to the next message, and are not kept waiting.",
    counts={
        "longest_tier_wait_ms": "ms until the tier went on at most",
        "longest_wait_ms": "ms until a read went on at most",
    },
    anomalies=(
        AnomalyKind(
            name=STALLED,
            meaning="readers polled for longer than the bound, got nothing, and confirmed messages were there",
            headline=("Readers got nothing, though messages were there",),
        ),
        AnomalyKind(
            name=TIER_STALLED,
            meaning="after recovery the tier gave nothing new for longer than the bound, though the queue went on",
            headline=("The tier stood still after the recovery",),
        ),
        AnomalyKind(
            name=WRONG_NEXT_OFFSET,
            meaning="an answer sent its reader back, or on past messages that are there",
            headline=("A reader was sent to a wrong offset",),
            decision=(Pull,),
        ),
        AnomalyKind(
            name=UNREADABLE,
            meaning="a retained offset was answered as empty, or as one that the queue does not have",
            headline=("A kept message was answered as missing", "{n} kept messages were answered as missing"),
            decision=(Pull,),
        ),
        AnomalyKind(
            name=WOKEN_LATE,
            meaning="a read that waited for a message was answered late, though its node had it",
            decision=(Pull,),
        ),
        AnomalyKind(
            name=STALE_MINIMUM,
            meaning="a node went on naming a beginning of a queue that it had deleted long before",
            decision=(Pull, Bounds),
        ),
        AnomalyKind(
            name=STALE_MAXIMUM,
            meaning="a replica went on naming an end of a queue that was long past",
            decision=(Pull, Bounds),
        ),
    ),
)
#: What a run must have shown, and what is said where it has not.
HELD = ("held_reads", "reads asked to be held, and none of them was answered")
ANSWERED = ("answered_reads", "no read was answered: nothing shows whether readers come forward")
