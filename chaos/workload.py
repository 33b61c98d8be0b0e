"""What a workload implements, and the worker that records its operations.

A workload is a script of clients: ``run`` generates load until the run ends it, ``drain`` then reads every queue to its
end. It sees queues, objects and clients, never nodes' internals, so the same file runs against every system.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from random import Random
from typing import Any, Protocol

from chaos.delivery_services import DeliveryMember, DeliveryProducer
from chaos.driver import Client, ClientCommand, Record
from chaos.errors import BadInput
from chaos.log_services import GroupMember, LogReader, Transactions
from chaos.ops import Answer, Failed, OpType, QueueRef, Unknown, message_id
from chaos.services import DeletesTopics, Limits, Locks, Metadata, Objects, Operator, Topics, WaitingReads

#: So long ``run`` may go on after the end of the load by what it was waiting for; longer waits end with the load.
LONG_WAIT_S = 10.0


def body_hash(body: bytes) -> int:
    """Return the identity of a message's content in every history: the first 63 bits of BLAKE2b."""
    return int.from_bytes(blake2b(body, digest_size=8).digest(), "big") >> 1


class Load(Protocol):
    """What the run gives to a workload: clients, queues, time, random numbers, and a place for rows."""

    @property
    def queues(self) -> tuple[QueueRef, ...]:
        """All queues of the run, by their index; the same during the whole run."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """The nodes that clients of queues ask, as they are known now; one may join in mid-run."""

    @property
    def stopping(self) -> bool:
        """Whether ``run`` shall return."""

    @property
    def record(self) -> Record: ...

    @property
    def shared(self) -> dict[str, dict[int, int]]:
        """What all workloads of a run know together, by the index of the queue. ``acked``: the highest acknowledged
        offset. ``seen``: the highest offset that was read. ``sequence``: the number of the next new message. And
        ``txn``: the number of the next transaction, at 0."""

    def client(self, name: str) -> Client:
        """Return a client of queues under this name, to which link rules apply."""

    def waiting_reads(self, name: str) -> WaitingReads:
        """Return a client of queues whose reads may wait; only for a workload that names
        :class:`chaos.services.CanHoldReads` in its ``needs``."""

    def log_reader(self, name: str) -> LogReader:
        """Return a client with positions in queues of its own; only for a workload that names
        :class:`chaos.log_services.CanReadLogs` in its ``needs``."""

    def transactions(self, name: str, id: str) -> Transactions:
        """Return a producer that will own this transactional id; only for a workload that names
        :class:`chaos.log_services.CanTransact` in its ``needs``."""

    def group_member(self, name: str, group: str) -> GroupMember:
        """Return a client that can join this consumer group; only for a workload that names
        :class:`chaos.log_services.CanHaveGroups` in its ``needs``."""

    def delivery_producer(self, name: str) -> DeliveryProducer:
        """Return a producer of delays, transactions and batches; only for a workload that names
        :class:`chaos.delivery_services.CanDeliver` in its ``needs``."""

    def delivery_member(self, name: str, group: str) -> DeliveryMember:
        """Return a client that can join this group; only for a workload that names
        :class:`chaos.delivery_services.CanDeliver` in its ``needs``."""

    def objects(self, name: str) -> Objects:
        """Return a client of the system as a key-value store; only for a workload that names
        :class:`chaos.services.CanHoldObjects` in its ``needs``."""

    def topics(self, name: str) -> Topics:
        """Return a client that creates topics; only for a workload that names :class:`chaos.services.CanCreateTopics`
        in its ``needs``."""

    def deleting_topics(self, name: str) -> DeletesTopics:
        """Return a client that deletes topics, too; only for a workload that names
        :class:`chaos.services.CanDeleteTopics` in its ``needs``."""

    def operator(self, name: str) -> Operator:
        """Return an operator who switches masters; only for a workload that names :class:`chaos.services.CanBeOperated`
        in its ``needs``."""

    def metadata(self, name: str) -> Metadata:
        """Return a client of the system's metadata; only for a workload that names
        :class:`chaos.services.CanKeepMetadata` in its ``needs``."""

    def limits(self, name: str) -> Limits:
        """Return a client that asks for what lies at the system's limits; only for a workload that names
        :class:`chaos.services.HasLimits` in its ``needs``."""

    def locks(self, name: str) -> Locks:
        """Return a client of locks that the system lends; only for a workload that names
        :class:`chaos.services.CanLendLocks` in its ``needs``."""

    async def client_command(self, name: str) -> ClientCommand:
        """How a client under this name is started that is a program; only for a workload that names
        :class:`chaos.driver.HasClientPrograms` in its ``needs``."""

    async def library_command(self, name: str, orders: Mapping[str, int]) -> ClientCommand:
        """How a client under this name is started that uses the system's client library as ``orders`` say; only for a
        workload that names :class:`chaos.driver.HasClientLibrary` in its ``needs``."""

    async def look_for_bypass(self, client: str, pid: int) -> None:
        """Note in the history if this client, a program whose session on this machine this process leads, reaches nodes
        round the proxies that carry out rules on its links."""

    def rng(self, name: str) -> Random:
        """Return a generator of random numbers that belongs to this name, derived from the run's seed."""

    async def sleep(self, seconds: float) -> bool:
        """Return whether the load ended before the time was over: a wait of more than :data:`LONG_WAIT_S` ends with
        it."""

    async def gather(self, *coroutines: Coroutine[Any, Any, None]) -> None:
        """Run all to their end, started in this order; the first error cancels the rest and is raised."""

    def now_ns(self) -> int:
        """Return the time on the clock of the history, in ns."""


class Use(StrEnum):
    """What a workload operates on. Laws about queues are not applicable to a run in which no workload uses queues."""

    QUEUES = "queues"  # load.queues, through load.client
    OBJECTS = "objects"  # the keys of load.objects
    TIER_READS = "tier-reads"  # old messages of load.queues, read through the tier
    TOPICS = "topics"  # topics that it creates and deletes, through load.topics
    DELIVERIES = "deliveries"  # messages that are pushed to groups, delayed, or decided by a transaction
    LIMITS = "limits"  # requests at the system's limits, through load.limits
    SWITCHES = "switches"  # switches of masters that it asks for, through load.operator
    METADATA = "metadata"  # views of the entries of load.metadata
    LOGS = "logs"  # several of load.queues at a time, from positions, through load.log_reader or load.group_member
    TRANSACTIONS = "transactions"  # several of load.queues at a time, through load.transactions
    EXCHANGES = "exchanges"  # items that are put in and come out, whose offsets no client sees; in imported runs only


class Workload(Protocol):
    """A workload may declare three things besides, as attributes. ``uses``: what it operates on, a sequence of
    :class:`Use`; queues unless it says otherwise. ``needs``: the optional powers that its driver must have, as
    protocols of :mod:`chaos.driver` (:class:`~chaos.services.CanHoldObjects` for objects); an experiment with another
    driver is refused before anything starts. ``sends_per_s``: how many messages it is to send each second; a run in
    which less than a tenth of that was acknowledged shows too little to be VALID."""

    async def run(self, load: Load) -> None:
        """Generate load until ``load.stopping``; return within a few seconds of it."""

    async def drain(self, load: Load) -> None:
        """After recovery: read every queue to max(the system's end, acknowledged + 1, seen + 1), within a bound."""


def uses_of(workload: object) -> tuple[Use, ...]:
    """Return what the workload has declared to operate on. Raises :class:`BadInput` for words that mean nothing."""
    declared: Sequence[str] = getattr(workload, "uses", (Use.QUEUES,))
    try:
        return tuple(Use(one) for one in declared)
    except ValueError as error:
        raise BadInput(f"workload {type(workload).__name__}: uses: {error}; known: {', '.join(Use)}") from error


def next_message(load: Load, queue: QueueRef) -> int:
    """Return the id of a new message: numbers are dense in each queue, whichever client sends."""
    sequences = load.shared["sequence"]
    sequence = sequences.get(queue.index, 0)
    sequences[queue.index] = sequence + 1
    return message_id(queue.index, sequence)


def note(load: Load, what: str, queue: QueueRef, offset: int) -> None:
    """Remember the highest offset that anybody got acknowledged (``acked``) or read (``seen``)."""
    known = load.shared[what]
    known[queue.index] = max(known.get(queue.index, -1), offset)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an operation ended. ``answer`` is empty unless it is ``ok``, or a refusal that says something."""

    type: OpType
    answer: Answer
    reason: str = ""

    @property
    def ok(self) -> bool:
        return self.type is OpType.OK


@dataclass(frozen=True, slots=True)
class Begun:
    """An operation that a worker has begun. ``asked``: the columns that both of its rows have."""

    op: int
    offset: int
    asked: Mapping[str, Any]
    value: Mapping[str, object]


class Worker:
    """One logical process after another: records invocations and completions, and retires a process whose operation
    ended in ``info``, so that nobody takes a late effect for a later operation's."""

    def __init__(self, load: Load, name: str) -> None:
        self._record = load.record
        self._name = name
        self._life = 0

    @property
    def process(self) -> str:
        return f"{self._name}.{self._life}"

    async def do(self, f: str, operation: Callable[[], Coroutine[Any, Any, Answer]], **columns: Any) -> Outcome:
        """Record the invocation, perform it, record the completion. ``columns`` are those of :meth:`begin`."""
        begun = self.begin(f, **columns)
        return self.end(begun, await outcome_of(operation))

    def begin(
        self,
        f: str,
        *,
        queue: QueueRef | None = None,
        offset: int = -1,
        message: int = -1,
        hash: int = -1,
        **value: object,
    ) -> Begun:
        """Record the invocation; nothing else may begin before :meth:`end`."""
        number = -1 if queue is None else queue.index
        asked = {"process": self.process, "f": f, "queue": number, "message": message, "hash": hash}
        op = self._record("op", type=OpType.INVOKE, offset=offset, value=value, **asked)
        return Begun(op, offset, asked, value)

    def end(self, begun: Begun, outcome: Outcome) -> Outcome:
        """Record the completion (one more ``delivered`` row per message read)."""
        answer, asked, op = outcome.answer, begun.asked, begun.op
        began_at = {"asked": begun.offset} if asked["f"] != "send" and begun.offset >= 0 else {}
        result = {**begun.value, **_learned(outcome), **began_at}
        who = {"node": answer.node, "incarnation": answer.incarnation, "epoch": answer.epoch}
        self._record(
            "op", type=outcome.type, op=op, offset=answer.offset, position=answer.position, value=result, **who, **asked
        )
        of: dict[str, Any] = {"value": {"txn": begun.value["txn"]}} if "txn" in begun.value else {}
        for delivered in answer.messages:
            self._record(
                "op",
                type=OpType.OK,
                op=op,
                process=asked["process"],
                f="delivered",
                queue=delivered.queue if delivered.queue >= 0 else asked["queue"],
                offset=delivered.offset,
                message=delivered.message,
                hash=delivered.hash,
                **who,
                **of,
            )
        if outcome.type is OpType.INFO:
            self._life += 1
        return outcome


async def outcome_of(operation: Callable[[], Coroutine[Any, Any, Answer]]) -> Outcome:
    """Return how a call of a client ended."""
    try:
        return Outcome(OpType.OK, await operation())
    except Failed as error:
        return Outcome(OpType.FAIL, error.answer, error.reason)
    except Unknown as error:
        return Outcome(OpType.INFO, error.answer, error.reason)


def _learned(outcome: Outcome) -> dict[str, object]:
    """Return what a completion's value says of the answer: what the answer does not know is left out."""
    answer = outcome.answer
    ends = {"minimum": answer.minimum, "maximum": answer.maximum, "following": answer.following, "size": answer.size}
    source = {"source": answer.source} if answer.source else {}
    reason = {"reason": outcome.reason} if outcome.reason else {}
    return {**answer.value, **source, **{name: end for name, end in ends.items() if end != -1}, **reason}
