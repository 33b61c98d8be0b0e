"""What systems whose queues are logs may serve beside single reads: positions, groups with members, transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from chaos.driver import Network
from chaos.ops import Answer, QueueRef


class LogReader(Protocol):
    """A client that has queues of its own, and a position in each of them. It is given no message of a transaction that
    is open or aborted. What a request could not bring leaves the positions as they are.

    Each call is one request, or none where the client knows the answer itself, and ends as those of
    :class:`chaos.driver.Client` do. ``value["following"]`` is its position in each of its queues after the call,
    by the queue's index as a text."""

    async def assign(self, queues: Sequence[QueueRef]) -> Answer:
        """Own these queues and no others. Those that it owned before keep their position; it begins the others at
        their first offset."""

    async def seek(self, queue: QueueRef, offset: int) -> Answer:
        """Go on at this offset of a queue that it owns; -1: at its end, as the system says now; 0: at its first
        offset. ``Answer.offset`` says where that is."""

    async def poll(self, limit: int) -> Answer:
        """Read up to ``limit`` messages of any of its queues, those of each queue from its position on, in their order;
        :attr:`chaos.ops.Delivered.queue` names it. Ok and no messages: there was none where this poll looked; the next
        one may look into other queues."""

    def close(self) -> None: ...


@runtime_checkable
class CanReadLogs(Protocol):
    """Optional power of a driver: clients read several queues from positions of their own, see :class:`LogReader`."""

    def log_reader(self, network: Network, name: str) -> LogReader:
        """Return a client under this name, to which link rules apply."""


class Transactions(Protocol):
    """A producer with a transactional id, which has at most one transaction open at a time. Each call is one request,
    or none where the protocol has none for it, and ends as those of :class:`chaos.driver.Client` do. Where one needs a
    step before (to find the coordinator, to add a queue to the transaction) that ends otherwise than in ok, the request
    was not sent: :class:`chaos.ops.Failed`.

    A producer whose id another one has taken over is fenced for ever: all its calls raise :class:`chaos.ops.Failed`
    with ``value["fenced"]`` = True. Who goes on is a new client."""

    async def take_over(self) -> Answer:
        """Become the owner of the id: its last owner is fenced, and what that one left open is aborted, unless its
        commit has taken effect. ``value["epoch"]`` grows with each owner. To be asked first, until it ends in ok."""

    async def begin(self) -> Answer:
        """Open a transaction."""

    async def send(self, queue: QueueRef, key: str, body: bytes) -> Answer:
        """Append one message in the transaction. Ok: it stands at ``Answer.offset``, and readers see it from the commit
        on."""

    async def commit_offsets(self, group: str, offsets: Mapping[QueueRef, int]) -> Answer:
        """Store the group's next offsets to read with the transaction: they count from its commit on."""

    async def end(self, *, commit: bool) -> Answer:
        """Commit or abort the transaction. After :class:`chaos.ops.Unknown` it may be asked again, in the same way; ok
        then says that the transaction has ended so."""

    def close(self) -> None:
        """Go away as one that has crashed: what is open stays open until the id is taken over, or times out."""


@runtime_checkable
class CanTransact(Protocol):
    """Optional power of a driver: transactions over several queues and offsets of groups, see :class:`Transactions`.
    Whatever else reads messages, :meth:`chaos.driver.Client.pull` included, is given those of committed transactions
    only."""

    def transactions(self, network: Network, name: str, *, id: str) -> Transactions:
        """Return a producer under this name, to which link rules apply, that will own this transactional id."""


class GroupMember(Protocol):
    """A member of a consumer group, which is given queues, its own alone as long as its generation lasts.
    Each call is one request, or none where the client knows the answer itself, and ends as those of
    :class:`chaos.driver.Client` do; steps that come before are as those of :class:`Transactions`.

    ``join`` and ``heartbeat`` answer in ``value`` with the ``queues`` (their indexes) that are the member's from now
    on, the ``generation`` in which they are, and ``rejoin`` = True where it must join again to stay. One that the group
    has put out, or that speaks for a generation that is over, is refused with :class:`chaos.ops.Failed` and
    ``value["fenced"]`` = True; it can join again."""

    @property
    def session_s(self) -> float:
        """So long it may be silent before the group puts it out."""

    async def join(self, topics: Sequence[str]) -> Answer:
        """Become a member, or stay one in the generation that begins. Queues that it has given back for that are new to
        it when it is given them again: it begins those at the group's committed offset, at the first offset where there
        is none, and goes on in those that it kept."""

    async def heartbeat(self) -> Answer:
        """Stay a member, and hear whether a rebalance is under way."""

    async def poll(self, limit: int) -> Answer:
        """As :meth:`LogReader.poll`. Nothing says that the member's generation still lasts."""

    async def commit(self, offsets: Mapping[QueueRef, int]) -> Answer:
        """Store the group's next offsets to read, in the name of the member's generation."""

    async def leave(self) -> Answer:
        """Give all queues back at once."""

    def close(self) -> None:
        """Go away as one that has crashed: the group waits for it until its session is over."""


@runtime_checkable
class CanHaveGroups(Protocol):
    """Optional power of a driver: consumer groups with members among which queues are divided, see
    :class:`GroupMember`."""

    def group_member(self, network: Network, name: str, group: str) -> GroupMember:
        """Return a client under this name, to which link rules apply, that is no member yet."""
