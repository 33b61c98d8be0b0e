"""What the law *roles* promises, and the names of what breaks it."""

from __future__ import annotations

from chaos.events import Applied, Damaged, RaftRole, Recovered, Role, Route, Start
from chaos.law import AnomalyKind, Harm, Promise
from chaos.operations import Elect
from checkers.roles.lives import EPOCH_REGRESSION, LIFE_FORGOTTEN

TWO_MASTERS = "two-masters"
ELECTION_OUTSIDE_SET = "election-outside-set"
METADATA_CONFLICT = "metadata-conflict"
STALE_ROUTE = "stale-route"
MISSING_FROM_ROUTE = "missing-from-route"
ROUTE_REGRESSION = "route-regression"
REFUSED_SWITCH_DONE = "refused-switch-done"
ACKNOWLEDGED_SWITCH_UNDONE = "acknowledged-switch-undone"
DUPLICATE_ID = "duplicate-id"
DAMAGE_WITHOUT_FAULT = "damage-without-fault"
EPOCHS_FORGOTTEN = "epochs-forgotten"
PROMISE = Promise(
    name="roles",
    place=80,
    meaning="One master per epoch, epochs only grow, a master comes from the SyncStateSet, and routes follow.",
    counts={"roles_told": "roles reported"},
    anomalies=(
        AnomalyKind(
            name=TWO_MASTERS,
            meaning="two masters of one epoch, a master that was not elected, or two leaders of one term",
            headline=("Two masters of one epoch",),
            decision=(Role, RaftRole, Applied),
        ),
        AnomalyKind(
            name=EPOCH_REGRESSION,
            meaning="an epoch does not grow, or a node went back to an older one",
            headline=("An epoch went back",),
        ),
        AnomalyKind(
            name=ELECTION_OUTSIDE_SET,
            meaning="a master that was not in the SyncStateSet, or had lost its disk",
            headline=("A replica was elected that was not in sync", "{n} elections of replicas out of sync"),
            decision=(Applied,),
        ),
        AnomalyKind(
            name=METADATA_CONFLICT,
            meaning="controllers disagree on an entry, or a master on the SyncStateSet",
            headline=("Replicas disagree on metadata",),
            harm=Harm.CLIENTS,
        ),
        AnomalyKind(
            name=LIFE_FORGOTTEN,
            meaning="a replica forgot a life, though its disk was not harmed",
            headline=("A replica forgot an incarnation",),
            decision=(Start,),
        ),
        AnomalyKind(
            name=DAMAGE_WITHOUT_FAULT,
            meaning="a replica declared its disk damaged or new, and nothing had harmed it",
            headline=("A replica declared its disk damaged, though nothing had harmed it",),
            decision=(Damaged,),
        ),
        AnomalyKind(
            name=EPOCHS_FORGOTTEN,
            meaning="a replica came back with other epochs than those of its durable records",
            headline=("A replica came back with other epochs than its records have",),
            decision=(Recovered,),
        ),
        AnomalyKind(
            name=DUPLICATE_ID,
            meaning="the controllers gave one broker id to two brokers",
            headline=("Two brokers got one id",),
            decision=(Applied,),
        ),
        AnomalyKind(name=STALE_ROUTE, meaning="a name server named an older master for longer than the bound"),
        AnomalyKind(
            name=MISSING_FROM_ROUTE, meaning="a name server left a living broker out for longer than the bound"
        ),
        AnomalyKind(
            name=ROUTE_REGRESSION,
            meaning="the epoch that a name server gives for a group fell",
            decision=(Route,),
        ),
        AnomalyKind(
            name=REFUSED_SWITCH_DONE,
            meaning="a switch was answered as failed, and it was done",
            headline=("A switch was refused and done all the same",),
            decision=(Elect,),
        ),
        AnomalyKind(
            name=ACKNOWLEDGED_SWITCH_UNDONE,
            meaning="a switch was answered as done, and it was never carried out",
            headline=("A switch was acknowledged and never done",),
            decision=(Elect,),
        ),
    ),
)
