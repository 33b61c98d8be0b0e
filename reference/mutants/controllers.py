"""Planted bugs of what controllers agree on, and of how they serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.node import Env
from reference.broker.replication import ReplicatedBroker, Replication
from reference.broker.slave_replication import SlaveReplication
from reference.controller.heartbeats import Gathered
from reference.controller.liveness import Heartbeat
from reference.controller.node import Controller
from reference.controller.raft import Raft
from reference.controller.state_machine import Proposed
from reference.mutants._planted import NODE, Planted


class HeartbeatsKept(Gathered):
    """A follower gathers heartbeats, and never passes them on to the leader."""

    def add(self, address: str, heartbeat: Heartbeat) -> bool:
        super().add(address, heartbeat)
        return False


class VotesOnArrival(Raft):
    """Who joins has a vote at once, with an empty log."""

    def add_learner(self, env: Env, name: str, then: Proposed) -> None:
        self._change(env, self.members.with_voter(name), then)


class BrokenConnectionsIgnored(Controller):
    """Who lost its connection is waited for like one that is only silent."""

    def closed(self, env: Env, peer: str) -> None:
        self.raft.closed(env, peer)


class HeartbeatsUnacknowledged(SlaveReplication):
    """A slave acknowledges records, and no heartbeats: with nothing to replicate it counts as behind."""

    _last_ack = -1

    def _ack(self, env: Env) -> None:
        if self._policy.may_ack() > self._last_ack:
            self._last_ack = self._policy.may_ack()
            super()._ack(env)

    def start(self, env: Env, master: str) -> None:
        self._last_ack = -1
        super().start(env, master)


class WithHeartbeatsUnacknowledged(Replication):
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self.slave = HeartbeatsUnacknowledged(broker, self)


MUTANTS = (
    Planted(
        name="heartbeats-kept",
        law="controllers",
        stands_for="living brokers that a controller's leader takes for dead: masters are replaced without a need",
        parts={"controller": {"gathered": HeartbeatsKept}},
        scenario="heartbeats_in_turn",
    ),
    Planted(
        name="broken-connections-ignored",
        law="controllers",
        stands_for="a dead master that is replaced only after its patience, although its connection has told the end",
        parts={"controller": {NODE: BrokenConnectionsIgnored}},
        scenario="quiet",
    ),
    Planted(
        name="idle-counts-as-behind",
        law="controllers",
        stands_for="replicas that look behind when nobody sends anything: the ISR of a quiet group shrinks and grows",
        parts={"broker": {"replication": WithHeartbeatsUnacknowledged}},
        scenario="quiet",
    ),
    Planted(
        name="votes-on-arrival",
        law="controllers",
        stands_for="a controller with an empty log that counts for majorities: it helps to forget what was agreed on",
        parts={"controller": {"raft": VotesOnArrival}},
        scenario="down_to_one",
    ),
)
