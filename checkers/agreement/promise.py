"""What the law *agreement* promises, and the names of what breaks it."""

from __future__ import annotations

from chaos.law import AnomalyKind, Harm, Promise

OFFSET_CONFLICT = "offset-conflict"

REPLICA_DIVERGENCE = "replica-divergence"

METADATA_CONFLICT = "metadata-conflict"

OFFSETS_LOST = "offsets-lost"

PROMISE = Promise(
    name="agreement",
    place=20,
    meaning="One queue offset holds one message, on every replica, in every answer and in the tier.",
    counts={"records_told": "records reported"},
    anomalies=(
        AnomalyKind(
            name=OFFSET_CONFLICT,
            meaning="answers, or the tier, hold another message at an offset than something else does",
            headline=("An offset holds two messages", "{n} offsets hold two messages"),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=REPLICA_DIVERGENCE,
            meaning="two replicas' logs, or what nodes answer from them, differ; or one lacks a record in between",
            headline=("Replicas hold different records", "Replicas differ in {n} places"),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=METADATA_CONFLICT,
            meaning="replicas derived different topics or group offsets from the same records",
            headline=("Replicas disagree on metadata",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=OFFSETS_LOST,
            meaning="a replica lacks a group's offset that took effect below what it confirms",
            headline=("A replica lost a consumer group's offset", "Replicas lost {n} offsets of consumer groups"),
            harm=Harm.CLIENTS,
        ),
    ),
)
