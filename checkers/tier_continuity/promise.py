"""What the law about tier and local logs promises, and all that it can find."""

from __future__ import annotations

from chaos.events import StoreCas, StoreDelete, TierRequest
from chaos.law import AnomalyKind, Promise

TIER_GAP = "tier-gap"
TIER_OVERLAP = "tier-overlap"
TIER_MISSING_OBJECT = "tier-missing-object"
TIER_READ_MISMATCH = "tier-read-mismatch"
NEVER_COLLECTED = "never-collected"
NEVER_TRIMMED = "never-trimmed"
OBJECT_RETURNED = "object-returned"
LATE_UPLOAD = "late-upload"
HASTY_UPLOAD = "hasty-upload"
TOO_MANY_REQUESTS = "too-many-requests"
NO_BACK_OFF = "no-back-off"
PROMISE = Promise(
    name="tier-continuity",
    place=60,
    meaning="Tier and local logs together hold everything that is retained, once, and both read the same.",
    anomalies=(
        AnomalyKind(
            name=TIER_GAP,
            meaning="offsets that neither the tier nor a local log holds",
            headline=("The tier has a gap", "The tier has {n} gaps"),
        ),
        AnomalyKind(
            name=TIER_OVERLAP,
            meaning="an offset that is in two objects, or an object that was written twice",
            headline=("The tier holds an offset twice", "The tier holds {n} offsets twice"),
        ),
        AnomalyKind(
            name=TIER_MISSING_OBJECT,
            meaning="a manifest, or an object or offset that it names, is not there",
            headline=("The tier lacks what its manifest names",),
            decision=(StoreDelete,),
        ),
        AnomalyKind(
            name=TIER_READ_MISMATCH,
            meaning="an offset reads differently through the tier and from a local log",
            headline=("The tier reads differently from the log",),
        ),
        AnomalyKind(
            name=NEVER_COLLECTED, meaning="an object that no manifest names was still there after a whole master term"
        ),
        AnomalyKind(name=NEVER_TRIMMED, meaning="a manifest went on naming more than is to be kept"),
        AnomalyKind(
            name=OBJECT_RETURNED,
            meaning="an object is in the store again after its deletion took effect",
            headline=("A deleted object is in the tier again",),
            decision=(StoreDelete,),
        ),
        AnomalyKind(name=LATE_UPLOAD, meaning="an acknowledged message came too late into the tier, without a fault"),
        AnomalyKind(
            name=HASTY_UPLOAD,
            meaning="segment after segment was uploaded before it was full, or its records old",
            decision=(StoreCas,),
        ),
        AnomalyKind(
            name=TOO_MANY_REQUESTS,
            meaning="an uploader had more requests to the object store under way than it may",
            decision=(TierRequest,),
        ),
        AnomalyKind(
            name=NO_BACK_OFF,
            meaning="an uploader that got no answer asked again and again without a pause",
            decision=(TierRequest,),
        ),
    ),
)
