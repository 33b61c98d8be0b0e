"""What the law promises, and the names of its anomalies."""

from __future__ import annotations

from chaos.events import StoreCas, TierCommit
from chaos.law import AnomalyKind, Promise

UPLOAD_BEYOND_CONFIRM = "upload-beyond-confirm"
TIER_LOG_MISMATCH = "tier-log-mismatch"
TIER_OFFSET_REGRESSION = "tier-offset-regression"
POSITION_MISSTATED = "position-misstated"
PROMISE = Promise(
    name="upload-bound",
    place=40,
    meaning="The tier never holds what is not confirmed.",
    counts={"positions_told": "positions reported"},
    anomalies=(
        AnomalyKind(
            name=UPLOAD_BEYOND_CONFIRM,
            meaning="a manifest goes beyond what was confirmed when it was sent",
            headline=("The tier was given records that nobody had confirmed",),
            decision=(TierCommit, StoreCas),
        ),
        AnomalyKind(
            name=POSITION_MISSTATED,
            meaning="a manifest gives another log position than the one where its last record ends",
            decision=(StoreCas,),
        ),
        AnomalyKind(
            name=TIER_LOG_MISMATCH,
            meaning="a tiered record differs from the confirmed log of a replica",
            headline=("The tier holds other records than the log", "The tier differs from the log in {n} places"),
        ),
        AnomalyKind(
            name=TIER_OFFSET_REGRESSION,
            meaning="a manifest ends earlier than the version before it, or an older version came back",
            headline=("A manifest of the tier went back",),
        ),
    ),
)
