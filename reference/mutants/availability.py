"""Planted bugs that keep every promise about data and stop the service."""

from __future__ import annotations

from chaos.node import Env, Message
from reference.broker.membership import Membership
from reference.broker.replication import Replication
from reference.mutants._planted import Planted


class NotificationLost(Membership):
    """Role changes come by notification alone, and the notification gets lost."""

    def notified(self, env: Env, message: Message) -> None:
        return

    def poll(self, env: Env) -> None:
        return


class WaitsForDeadPeer(Replication):
    """A member of the SyncStateSet that has gone silent stays in it for ever, and every write waits for it."""

    def may_leave_set(self, behind_ns: int) -> bool:
        return False


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
        scenario="dead_peer",
    ),
)
