"""What the law *in-sync* promises, and the names of what breaks it."""

from __future__ import annotations

from chaos.events import Acked, Confirm, Role, Synced, SyncStateSet
from chaos.law import AnomalyKind, Promise
from checkers._facts.nodes import acks

CONFIRM_BEYOND_LOG = "confirm-beyond-log"

FALSE_SYNC = "false-sync"

MEMBER_BEHIND = "member-behind"

SET_NOT_COUNTED = "set-not-counted"

TOO_FEW_IN_SYNC = "too-few-in-sync"

CONFIRM_BEHIND = "confirm-behind"

LATE_JOIN = "late-join"

PROMISE = Promise(
    name="in-sync",
    place=35,
    meaning="Every replica in sync has what is confirmed, and the master counts on all of them, at every step.",
    anomalies=(
        AnomalyKind(
            name=CONFIRM_BEYOND_LOG,
            meaning="a node confirmed what its own durable log did not hold then",
            headline=("A node confirmed what its disk did not hold",),
            decision=(Confirm,),
        ),
        AnomalyKind(
            name=FALSE_SYNC,
            meaning="a node reported as durable what its log, or after a crash its disk, did not hold",
            headline=("A node reported as durable what its disk did not hold",),
            decision=(Synced,),
        ),
        AnomalyKind(
            name=MEMBER_BEHIND,
            meaning="a running member of the committed SyncStateSet lacked what was confirmed",
            headline=("A replica in sync lacked confirmed records",),
            decision=(SyncStateSet,),
        ),
        AnomalyKind(
            name=acks.FALSE_ACK,
            meaning="a master counted as acknowledged what the member's own disk did not hold",
            headline=("A master counted an acknowledgement that was not durable",),
            decision=(Confirm, SyncStateSet),
        ),
        AnomalyKind(
            name=SET_NOT_COUNTED,
            meaning="a master counted on fewer replicas than the controllers had committed",
            headline=("A master counted on fewer replicas than the controllers had agreed on",),
            decision=(Role, SyncStateSet, Confirm),
        ),
        AnomalyKind(
            name=TOO_FEW_IN_SYNC,
            meaning="a master acknowledged a message while its SyncStateSet was smaller than `min_in_sync`",
            headline=("A message was acknowledged with too few replicas in sync",),
            decision=(Acked,),
        ),
        AnomalyKind(
            name=CONFIRM_BEHIND,
            meaning="a member of the SyncStateSet did not learn in the end what its master had confirmed",
        ),
        AnomalyKind(
            name=LATE_JOIN,
            meaning="a replica that lived, and that nothing hindered, did not come into the SyncStateSet",
        ),
    ),
)
