"""What the law about durability promises, and all that it can find."""

from __future__ import annotations

from chaos.events import Acked, Retention
from chaos.law import AnomalyKind, Harm, Promise
from chaos.operations import Bounds, Pull
from checkers._facts.retention import EARLY_RETENTION

LOST = "lost"
LOST_BY_POLICY = "lost-by-policy"
FALSE_ACKNOWLEDGEMENT = "false-acknowledgement"
RECOVERED = "recovered"
DUPLICATE_APPEND = "duplicate-append"
REDELIVERY = "redelivery"
LATE_RETENTION = "late-retention"
UNEXPECTED = "unexpected"
CORRUPT = "corrupt"
PROMISE = Promise(
    name="durability",
    place=10,
    meaning="An acknowledged message is readable at its queue and offset until retention removes it by its rules.",
    kept="Nothing was lost",
    counts={
        "acked": "acknowledged",
        "acknowledged": "acknowledged",
        "drained_queues": "queues read to their end",
        "duplicates_by_retry": "",
        "lost": "",
        "read": "read",
        "unclear": "of unknown outcome",
    },
    anomalies=(
        AnomalyKind(
            name=LOST,
            meaning="acknowledged, not removed by retention, and not found with the same content",
            headline=("An acknowledged message was lost", "{n} acknowledged messages were lost"),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=LOST_BY_POLICY, meaning="the same under a profile that permits it", lawful=True, by_policy=True
        ),
        AnomalyKind(
            name=FALSE_ACKNOWLEDGEMENT,
            meaning="acknowledged with fewer copies than the weaker profile demands",
            headline=(
                "A message was acknowledged with too few copies",
                "{n} messages were acknowledged with too few copies",
            ),
            harm=Harm.CLIENTS,
            decision=(Acked,),
        ),
        AnomalyKind(name=RECOVERED, meaning="the result of the send was unknown; the message was stored", lawful=True),
        AnomalyKind(
            name=DUPLICATE_APPEND,
            meaning="the message is stored at more offsets than it had attempts that may have succeeded",
            headline=("A message was stored twice", "{n} messages were stored more often than they were sent"),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=REDELIVERY,
            meaning="a group got the same offset again, or what has none twice, as at-least-once permits",
            lawful=True,
        ),
        AnomalyKind(
            name=UNEXPECTED,
            meaning="a message in a queue that nobody sent there, or whose every send was definitely refused",
            headline=("A message appeared that nobody sent", "{n} messages appeared that nobody sent"),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=CORRUPT,
            meaning="a known message with another content than was sent",
            headline=("A message came back with other content", "{n} messages came back with other content"),
            harm=Harm.DATA,
        ),
        AnomalyKind(
            name=EARLY_RETENTION,
            meaning="something that had to be kept was deleted, or reported as deleted",
            headline=("Retention removed what had to be kept",),
            harm=Harm.DATA,
            decision=(Retention, Pull, Bounds),
        ),
        AnomalyKind(
            name=LATE_RETENTION, meaning="a replica's log kept much more than it has to, although it might delete that"
        ),
    ),
)


def short(message: int) -> str:
    """Return a message for people, as reports name it."""
    return f"{message >> 40}/{message & (1 << 40) - 1}" if message >= 0 else "without an id"
