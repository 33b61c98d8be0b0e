"""What the law *retention* promises, and the names of what breaks it."""

from __future__ import annotations

from chaos.events import Applied, Trimmed
from chaos.law import AnomalyKind, Harm, Promise

TRIMMED_EARLY, WRONG_RULE, SIZE_OVERCOUNTED = "trimmed-early", "trimmed-by-wrong-rule", "size-overcounted"
TIME_WENT_BACK, ONE_CLOCK, KEPT_TOO_LONG = "logged-time-went-back", "one-clock-followed", "kept-too-long"
ID_AGAIN = "topic-id-used-again"

PROMISE = Promise(
    name="retention",
    place=92,
    meaning="Nothing is deleted before its topic's rule allows, or kept much longer; no topic touches another.",
    anomalies=(
        AnomalyKind(
            name=TRIMMED_EARLY,
            meaning="messages were deleted that their topic's rule keeps",
            headline=("Messages were deleted too early", "Messages were deleted too early {n} times"),
            harm=Harm.DATA,
            decision=(Trimmed,),
        ),
        AnomalyKind(
            name=WRONG_RULE,
            meaning="messages were deleted by an entry that is not their topic's",
            headline=("Messages were deleted by another topic's rule",),
            harm=Harm.DATA,
            decision=(Trimmed,),
        ),
        AnomalyKind(
            name=SIZE_OVERCOUNTED,
            meaning="a store counted more bytes of a topic than there were",
            headline=("A store counted more bytes than there were",),
            harm=Harm.DATA,
            decision=(Trimmed,),
        ),
        AnomalyKind(
            name=TIME_WENT_BACK,
            meaning="the logged time of a group fell",
            headline=("The logged time of a group fell",),
            decision=(Trimmed,),
        ),
        AnomalyKind(
            name=ONE_CLOCK,
            meaning="a group's logged time followed the clocks of a minority",
            headline=("A group followed one clock that was wrong",),
            harm=Harm.DATA,
            decision=(Trimmed,),
        ),
        AnomalyKind(
            name=KEPT_TOO_LONG,
            meaning="messages were there in the end that should have been deleted long before",
            headline=("Messages were kept too long",),
        ),
        AnomalyKind(
            name=ID_AGAIN,
            meaning="a topic got the id of another one, and with it what is left of that one's messages",
            headline=("A topic got the messages of another one",),
            harm=Harm.DATA,
            decision=(Applied,),
        ),
    ),
    counts={"trims": "times that messages were deleted", "kept_topics": "topics with a limit that stores still held"},
)
