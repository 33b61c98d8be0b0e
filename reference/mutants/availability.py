"""Planted bugs that keep every promise about data and stop the service."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.node import Env
from reference.broker.membership import Membership
from reference.broker.node import Broker
from reference.broker.parts import Refused
from reference.broker.producer_requests import ProducerRequests
from reference.broker.replication import Replication
from reference.controller.heartbeats import Gathered
from reference.controller.liveness import Heartbeat
from reference.controller.replicas import Group, Replicas, Standing
from reference.embedded import NameServerWithController
from reference.mutants._planted import NODE, Planted
from reference.wire.codes import Response
from reference.wire.command import Command


class NotificationLost(Membership):
    """Role changes come by notification alone, and the notification gets lost."""

    def notified(self, env: Env, message: Command) -> None:
        return

    def poll(self, env: Env) -> None:
        return


class WaitsForDeadPeer(Replication):
    """A member of the SyncStateSet that has gone silent stays in it for ever, and every write waits for it."""

    def may_leave_set(self, behind_ns: int) -> bool:
        return False


class TimerOfTheNewest(ProducerRequests):
    """Each request that comes sets the timer again: those who wait do so for as long as others come."""

    def late_by(self, env: Env, name: str) -> int:
        queue = self._sends if name == "waiting" else self._changes
        return env.mono_ns() - queue[-1].deadline_ns if queue else 0

    def timer(self, env: Env, name: str) -> None:
        if (left_ns := -self.late_by(env, name)) > 0:
            env.set_timer(name, left_ns)
        else:
            super().timer(env, name)


class StaleHeartbeats(Gathered):
    """A follower reports to the leader every broker that it has ever heard, as if it had heard it just now."""

    def __init__(self) -> None:
        super().__init__()
        self._ever: dict[str, Heartbeat] = {}

    def take(self) -> Mapping[str, Heartbeat]:
        self._ever |= super().take()
        return self._ever

    def age_ms(self, heartbeat: Heartbeat, now_ns: int) -> int:
        return 0


class ElectionByMajority(Replicas):
    """Nobody becomes master while half of the group's replicas, or more, are gone."""

    def candidates(self, group: Group, alive: Mapping[int, Standing]) -> list[int]:
        return super().candidates(group, alive) if 2 * len(alive) > len(group.replicas) else []


class ServesWhileControllersLive(Broker):
    """A broker that has heard no controller for two seconds serves no request until it hears one again."""

    _heard_ns = 0

    def message(self, env: Env, source: str, message: Command) -> None:
        if source in self._controllers:
            self._heard_ns = env.mono_ns()
        super().message(env, source, message)

    def must_serve(self, *, any_replica: bool = False) -> None:
        super().must_serve(any_replica=any_replica)
        if self.env.mono_ns() - self._heard_ns > 2_000_000_000:
            raise Refused(Response.SERVICE_NOT_AVAILABLE, "no controller is heard")


class BackAsControllerAlone(NameServerWithController):
    """A name server with a controller in it that was started again is a controller and no name server."""

    def message(self, env: Env, source: str, message: Command) -> None:
        if env.incarnation == 1 or not self.nameserver.takes(message):
            super().message(env, source, message)


MUTANTS = (
    Planted(
        name="notification-lost",
        law="availability",
        stands_for="a lost role-change notification without the polling that is its safety net",
        parts={"broker": {"membership": NotificationLost}},
    ),
    Planted(
        name="waits-for-dead-peer",
        law="availability",
        stands_for="replication that waits for a dead peer: the SyncStateSet never shrinks",
        parts={"broker": {"replication": WaitsForDeadPeer}},
        scenario="absent_replica",
    ),
    Planted(
        name="timer-of-the-newest",
        law="availability",
        stands_for="one timer for all that wait, which each newcomer sets anew: who came first waits without end",
        parts={"broker": {"producer_requests": TimerOfTheNewest}},
        scenario="many_waiting_producers",
    ),
    Planted(
        name="stale-heartbeats",
        law="availability",
        stands_for="stale aggregation of heartbeats: a follower that passes on old ones keeps a dead master alive",
        parts={"controller": {"gathered": StaleHeartbeats}},
        scenario="stalled_master",
    ),
    Planted(
        name="election-by-majority",
        law="availability",
        stands_for="DLedger's own commit log: one of two brokers is no majority, and no master is elected",
        parts={"controller": {"replicas": ElectionByMajority}},
        scenario="two_replicas",
    ),
    Planted(
        name="serves-while-controllers-live",
        law="availability",
        stands_for="a master that counts as one only while it hears its controllers: their downtime is the service's",
        parts={"broker": {NODE: ServesWhileControllersLive}},
        scenario="controllers_gone",
    ),
    Planted(
        name="back-as-controller-alone",
        law="availability",
        stands_for="two services in one process, and a restart that brings only one of them back",
        parts={"controller": {NODE: BackAsControllerAlone}},
        scenario="embedded_controllers",
    ),
)
