"""What brokers may serve that keep messages for later and hand them to groups: delays, transactions and batches, and
groups that share out queues among their members, lock them, and send messages back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from chaos.driver import Client, Network
from chaos.ops import Answer, QueueRef


class DeliveryProducer(Client, Protocol):
    """A producer that sends more than single messages. Each call ends as those of :class:`chaos.driver.Client` do. It
    has to be kept known to the system by :meth:`beat`, so that it can be asked how its transactions end; it answers as
    the message itself says, which each has with it."""

    async def send_batch(self, queue: QueueRef, messages: Sequence[tuple[str, bytes]]) -> Answer:
        """Send messages (key and body) in one request. ``offset``: of the first; the others follow it."""

    async def delay(self, queue: QueueRef, key: str, body: bytes, *, delay_ms: int, level: bool) -> Answer:
        """Send a message that comes to its queue after so long. ``level``: say so by the least level of delay that is
        no shorter, where the system has levels; ``value["delay_ms"]`` is what was asked for."""

    async def transact(self, queue: QueueRef, key: str, body: bytes, *, decision: str, checked: bool) -> Answer:
        """Send a message whose transaction ends with ``commit`` or ``rollback``: at once, or (``checked``) only when
        the system asks. Ok: the system has the message; whether it comes is decided."""

    async def beat(self) -> None:
        """Let the system know this producer, or again; without an answer nothing happens. To be called each second."""


class DeliveryMember(Protocol):
    """A member of a group of consumers. Each call is one request or few, changes nothing twice, and ends as those of
    :class:`chaos.driver.Client` do."""

    async def beat(self) -> Answer:
        """Stay a member. ``value["queues"]``: the indexes of the queues that are its own by now, as all members share
        them out."""

    async def lock(self, queues: Sequence[QueueRef]) -> Answer:
        """Ask for the locks of these queues, or renew them. ``value["queues"]``: the indexes of those that it holds."""

    async def unlock(self, queues: Sequence[QueueRef]) -> Answer:
        """Give locks back."""

    @property
    def lock_s(self) -> float:
        """For how long it may work on a queue after it asked for its lock. The system keeps it for longer by more than
        any call takes."""

    async def committed(self, queue: QueueRef) -> Answer:
        """As :meth:`chaos.driver.Client.committed`, of its group."""

    async def pull(self, queue: QueueRef, offset: int, *, limit: int) -> Answer:
        """As :meth:`chaos.driver.Client.pull`."""

    async def commit(self, queue: QueueRef, offset: int) -> Answer:
        """As :meth:`chaos.driver.Client.commit`, of its group."""

    async def send_back(self, queue: QueueRef, offset: int) -> Answer:
        """Give back a message that it was given last time from this queue, to be given it again later: it, or another
        member. ``value["again_ms"]``: after how long."""

    async def pull_again(self, limit: int) -> Answer:
        """Return messages that came back, each with the ``queue`` that it was sent to; no other member is given these.
        None where they are another member's to read."""

    async def pop(self, limit: int, *, invisible_ms: int) -> Answer:
        """Be given messages of any queue, which are invisible to the rest of the group for so long, and then come again
        unless they are acknowledged. Each names its ``queue``; ``value["again"]``: the places among them of those that
        have come before."""

    async def acknowledge(self, message: int) -> Answer:
        """Say that it has done with a message that it was given last time by :meth:`pop`."""

    async def leave(self) -> Answer:
        """Leave the group."""

    def close(self) -> None:
        """End its connections, as a crash would."""


@runtime_checkable
class CanDeliver(Protocol):
    """Optional power of a driver: the system delays messages, decides them by transactions, and hands them to groups,
    see :class:`DeliveryProducer` and :class:`DeliveryMember`."""

    def delivery_producer(self, network: Network, name: str) -> DeliveryProducer:
        """Return a producer under this name, to which link rules apply."""

    def delivery_member(self, network: Network, name: str, group: str) -> DeliveryMember:
        """Return a client under this name, to which link rules apply, that is no member yet."""
