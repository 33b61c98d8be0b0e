"""What the parts of a broker need of the broker that they live in.

:class:`reference.broker.node.Broker` makes its parts and calls them; it fits every Protocol named here. A part sees no
more of it than its Protocol says, so that each can be read and tested alone, and no import goes in a circle:

* retention: :class:`Replica`
* replication: :class:`reference.broker.master_replication.MasterBroker`,
  :class:`reference.broker.slave_replication.SlaveBroker`
* requests: :class:`reference.broker.producer_requests.ProducerBroker`,
  :class:`reference.broker.consumer_requests.ConsumerBroker`, :class:`reference.broker.admin_requests.AdminBroker`
* membership: :class:`reference.broker.membership.Member`
* the tier: :class:`reference.tier.interface.BrokerInterface`, through :mod:`reference.broker.tier_adapter`

Everything that a part reads of its broker is of the very step in which it reads it.
"""

from __future__ import annotations

from typing import Protocol

from chaos.node import Env
from reference.broker.commitlog import CommitLog
from reference.broker.queues import Queue, Queues
from reference.broker.records import Record
from reference.tier.interface import TierInterface
from reference.wire.codes import Response


class Refused(Exception):
    """The request is refused and has no effect, now or later."""

    def __init__(self, code: Response, remark: str) -> None:
        super().__init__(remark)
        self.code = code


class Replica(Protocol):
    """What this replica holds."""

    @property
    def log(self) -> CommitLog: ...

    @property
    def queues(self) -> Queues:
        """What the log's records built; another object once the log has begun again."""

    @property
    def tier(self) -> TierInterface: ...

    @property
    def is_tiered(self) -> bool: ...

    @property
    def epoch(self) -> int:
        """The highest master epoch that this replica has accepted."""


class Growing(Replica, Protocol):
    """... and what happens when its log grows."""

    def added(self, env: Env, record: Record, epoch: int) -> None:
        """Take in a record of this epoch that was appended to the log."""

    def progress(self, env: Env) -> None:
        """Let what is confirmed take effect: the confirm offset may have moved."""


class Service(Replica, Protocol):
    """... and what it takes to serve a client."""

    def must_serve(self, *, any_replica: bool = False) -> None:
        """Raise :class:`Refused` unless this broker may answer clients now."""

    def find_queue(self, topic: str, queue_id: int) -> Queue:
        """Return a queue. Raises :class:`Refused` when there is none (yet)."""

    def identity_fields(self, env: Env) -> dict[str, str]:
        """Fields by which an answer says who gave it."""
