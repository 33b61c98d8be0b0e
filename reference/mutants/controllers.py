"""Planted bugs of what controllers agree on, and of how they serve."""

from __future__ import annotations

from chaos.node import Env
from reference.controller.heartbeats import Gathered
from reference.controller.liveness import Heartbeat
from reference.controller.raft import Raft
from reference.controller.state_machine import Proposed
from reference.mutants._planted import Planted


class HeartbeatsKept(Gathered):
    """A follower gathers heartbeats, and never passes them on to the leader."""

    def add(self, address: str, heartbeat: Heartbeat) -> bool:
        super().add(address, heartbeat)
        return False


class VotesOnArrival(Raft):
    """Who joins has a vote at once, with an empty log."""

    def add_learner(self, env: Env, name: str, then: Proposed) -> None:
        self._change(env, self.members.with_voter(name), then)


MUTANTS = (
    Planted(
        name="heartbeats-kept",
        law="controllers",
        stands_for="living brokers that a controller's leader takes for dead: masters are replaced without a need",
        parts={"controller": {"gathered": HeartbeatsKept}},
        scenario="heartbeats_in_turn",
    ),
    Planted(
        name="votes-on-arrival",
        law="controllers",
        stands_for="a controller with an empty log that counts for majorities: it helps to forget what was agreed on",
        parts={"controller": {"raft": VotesOnArrival}},
        scenario="down_to_one",
    ),
)
