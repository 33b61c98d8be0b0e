"""Delays, transactions, batches, and groups whose members come and go, lock queues and send messages back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, cast

from chaos.delivery_services import CanDeliver, DeliveryMember, DeliveryProducer
from chaos.ops import Answer, Delivered, OpType, QueueRef
from chaos.workload import Load, Outcome, Use, Worker, body_hash, next_message, note, outcome_of
from workloads._deliveries import Deliveries
from workloads._drain import IDLE_S, PULL_LIMIT, after, drain
from workloads._producers import body_of

NAME = "deliveries"
BEAT_S = 0.5
#: A member looks for its queues this often at least, and so long it may not know that one is another's by now.
LONGEST_BEAT_S = 2.0
#: For so long at most a member that locks its queues works on what it has read.
WORK_S = 0.2
LONGEST_DELAY_MS = 9000
#: After so long the system has asked how a transaction ends, and heard it.
UNDECIDED_MS = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How many producers of each kind: ``plain``, ``batch`` (of up to ``batch_size`` messages), ``delay`` (of up to 9
    s), ``transaction`` (two of three are committed, one is rolled back; a share ``checked`` ends only when the system
    asks). Together they send ``rate_per_s`` messages, or batches, of about ``body_bytes`` each. How many members the
    groups have: ``push``, whose members send a share ``returns`` of their messages back; ``orderly``, whose members
    lock the queues that they read; and ``pop``, whose members are given messages that are invisible to the others for
    ``invisible_ms``, and acknowledge all but a share ``returns``. Every ``change_s`` seconds on average a member ends:
    it leaves (a share ``leaves``) or crashes, and another one comes within ``away_s``. After recovery the groups have
    ``drain_s`` to catch up, and as long has the reading of each queue to its end."""

    plain: int = field(default=1, metadata={"within": range(101)})
    batch: int = field(default=1, metadata={"within": range(101)})
    batch_size: int = field(default=4, metadata={"within": range(1, 101)})
    delay: int = field(default=1, metadata={"within": range(101)})
    transaction: int = field(default=1, metadata={"within": range(101)})
    checked: float = 0.3
    push: int = field(default=2, metadata={"within": range(101)})
    returns: float = 0.03
    orderly: int = field(default=2, metadata={"within": range(101)})
    pop: int = field(default=2, metadata={"within": range(101)})
    invisible_ms: int = field(default=2000, metadata={"within": range(1000, 300_001)})
    rate_per_s: float = 60.0
    body_bytes: int = field(default=100, metadata={"within": range(4_000_001)})
    change_s: float = 8.0
    leaves: float = 0.5
    away_s: float = 2.0
    drain_s: float = 25.0

    def __post_init__(self) -> None:
        if not self.producers or not self.groups:
            raise ValueError("there must be producers and members; give a number of some kind of each")
        if self.rate_per_s <= 0:
            raise ValueError(f"rate_per_s: expected more than 0, got {self.rate_per_s:g}")

    @property
    def producers(self) -> int:
        return self.plain + self.batch + self.delay + self.transaction

    @property
    def groups(self) -> dict[str, int]:
        """How many members each group has that has some, by the group's name."""
        counts = {"push": self.push, "orderly": self.orderly, "pop": self.pop}
        return {f"{NAME}-{kind}": count for kind, count in counts.items() if count}


@dataclass(slots=True)
class DeliveryLoad:
    options: Options
    needs: Sequence[type] = (CanDeliver,)
    uses: Sequence[Use] = (Use.QUEUES, Use.DELIVERIES)
    _deliveries: Deliveries = field(default_factory=lambda: Deliveries(lambda group: NAME))

    @property
    def sends_per_s(self) -> float:
        """How many messages, or batches, the producers send each second that are acknowledged with their place."""
        options = self.options
        return options.rate_per_s * (options.plain + options.batch) / options.producers

    async def run(self, load: Load) -> None:
        options = self.options
        kinds = ("plain", "batch", "delay", "transaction")
        producers = [
            _Producer(load, options, self._deliveries, kind, number)
            for kind in kinds
            for number in range(getattr(options, kind))
        ]
        await load.gather(
            *(producer.produce() for producer in producers),
            *(producer.beat(lambda: load.stopping) for producer in producers if producer.kind == "transaction"),
            *self._members(load, lambda: load.stopping, changing=True),
        )

    def _members(self, load: Load, over: Callable[[], bool], *, changing: bool) -> list[Any]:
        return [
            _Members(load, self.options, self._deliveries, group, number).run(over, changing=changing)
            for group, count in self.options.groups.items()
            for number in range(count)
        ]

    async def drain(self, load: Load) -> None:
        """Read all that is left, the groups first: what is delayed, or decided late, may come to a queue meanwhile."""

        async def read_on(over: Callable[[], bool]) -> None:
            numbers = range(self.options.transaction)
            asked = [_Producer(load, self.options, self._deliveries, "transaction", number) for number in numbers]
            await load.gather(*(one.beat(over) for one in asked), *self._members(load, over, changing=False))

        drain_s = self.options.drain_s
        await self._deliveries.catch_up(load, list(self.options.groups), read_on, drain_s)
        await load.gather(*(drain(load, queue, f"{NAME}-{queue.index}", NAME, drain_s) for queue in load.queues))


class _Producer:
    """A producer of one ``kind``, which sends to all queues in turn."""

    def __init__(self, load: Load, options: Options, deliveries: Deliveries, kind: str, number: int) -> None:
        self.kind = kind
        self._name = f"{NAME}-{kind}-{number}"
        self._load = load
        self._options = options
        self._deliveries = deliveries
        self._client: DeliveryProducer = load.delivery_producer(self._name)
        self._workers: list[Worker] = []
        self._rng = load.rng(self._name)
        self._turn = number

    async def produce(self) -> None:
        load, gap_s = self._load, self._options.producers / self._options.rate_per_s
        while not await load.sleep(gap_s * 2 * self._rng.random()) and not load.stopping:
            self._turn += 1
            await getattr(self, f"_{self.kind}")(load.queues[self._turn % len(load.queues)])

    async def beat(self, over: Callable[[], bool]) -> None:
        while not over():
            await self._client.beat()
            await self._load.sleep(BEAT_S)

    def _message(self, queue: QueueRef) -> tuple[dict[str, Any], str, bytes]:
        """Return a new message: the columns of its rows, its key and its body."""
        message = next_message(self._load, queue)
        body = body_of(message, self._rng, self._options.body_bytes)
        return {"message": message, "hash": body_hash(body)}, f"{message:032X}", body

    def _worker(self, number: int = 0) -> Worker:
        while len(self._workers) <= number:
            self._workers.append(Worker(self._load, f"{self._name}-{len(self._workers)}"))
        return self._workers[number]

    async def _do(self, f: str, call: Callable[[], Any], queue: QueueRef, asked: dict[str, Any]) -> None:
        outcome = await self._worker().do(f, call, queue=queue, **asked)
        if f == "send" and outcome.ok:
            note(self._load, "acked", queue, outcome.answer.offset)
        self._heard(f, queue, asked, outcome)

    def _heard(self, f: str, queue: QueueRef, asked: dict[str, Any], outcome: Outcome) -> None:
        self._deliveries.heard(f, queue, asked, outcome)
        if f in ("delay", "transact") and outcome.type is not OpType.FAIL:
            self._deliveries.expect(self._load.now_ns(), asked.get("delay_ms", UNDECIDED_MS))

    async def _plain(self, queue: QueueRef) -> None:
        asked, key, body = self._message(queue)
        await self._do("send", lambda: self._client.send(queue, key, body), queue, asked)

    async def _batch(self, queue: QueueRef) -> None:
        """All messages of a batch have the outcome of the one request; each is an operation of its own."""
        made = [self._message(queue) for _ in range(self._rng.randint(1, self._options.batch_size))]
        begun = [
            self._worker(number).begin("send", queue=queue, via="batch", **asked)
            for number, (asked, _, _) in enumerate(made)
        ]
        parts = [(key, body) for _, key, body in made]
        ended = await outcome_of(lambda: self._client.send_batch(queue, parts))
        for number, (one, (asked, _, _)) in enumerate(zip(begun, made, strict=True)):
            outcome = self._worker(number).end(one, _of_batch(ended, number))
            if outcome.ok:
                note(self._load, "acked", queue, outcome.answer.offset)
            self._deliveries.heard("send", queue, asked, outcome)

    async def _delay(self, queue: QueueRef) -> None:
        asked, key, body = self._message(queue)
        level = self._rng.random() < 0.5
        delay_ms = self._rng.choice((1000, 5000)) if level else self._rng.randint(200, LONGEST_DELAY_MS)
        asked |= {"via": "level" if level else "timer", "delay_ms": delay_ms}

        async def delay() -> Answer:
            return await self._client.delay(queue, key, body, delay_ms=delay_ms, level=level)

        await self._do("delay", delay, queue, asked)

    async def _transaction(self, queue: QueueRef) -> None:
        asked, key, body = self._message(queue)
        decision = "commit" if self._rng.random() < 2 / 3 else "rollback"
        checked = self._rng.random() < self._options.checked
        asked |= {"via": "check" if checked else "end", "decision": decision}

        async def transact() -> Answer:
            return await self._client.transact(queue, key, body, decision=decision, checked=checked)

        await self._do("transact", transact, queue, asked)


def _of_batch(ended: Outcome, number: int) -> Outcome:
    """Return the outcome of one message of a batch."""
    if not ended.ok:
        return ended
    answer = ended.answer
    one = Answer(node=answer.node, incarnation=answer.incarnation, epoch=answer.epoch, offset=answer.offset + number)
    return Outcome(ended.type, one)


class _Members:
    """One member of a group after another, each under a name of its own: who comes for a member that crashed is another
    one."""

    def __init__(self, load: Load, options: Options, deliveries: Deliveries, group: str, number: int) -> None:
        self._load = load
        self._options = options
        self._deliveries = deliveries
        self._group = group
        self._name = f"{group}-{number}"
        self._in_order = group == f"{NAME}-orderly"
        self._rng = load.rng(self._name)

    async def run(self, over: Callable[[], bool], *, changing: bool) -> None:
        load, options, life = self._load, self._options, 0
        while not over():
            life += 1
            name = f"{self._name}-{life}" if changing else f"{self._name}-last"
            client = load.delivery_member(name, self._group)
            until_ns = load.now_ns() + round(1e9 * options.change_s * self._rng.expovariate(1.0))
            member = _Member(load, self._deliveries, client, name, self._group, self._in_order, self._rng)
            be = member.be_given if self._group == f"{NAME}-pop" else member.be
            await be(_over_by(over, load, until_ns if changing else -1), options)
            if changing and self._rng.random() < options.leaves:
                await member.leave()
            client.close()
            if not over():
                await load.sleep(options.away_s * self._rng.random())


def _over_by(over: Callable[[], bool], load: Load, until_ns: int) -> Callable[[], bool]:
    """Return what says whether a member's time is over: that of all, or its own (-1: it has none)."""
    return lambda: over() or 0 <= until_ns <= load.now_ns()


class _Member:
    """``_next``: the next offset that it reads of a queue; ``_locked``: until when it may work on a queue, in ns."""

    def __init__(
        self,
        load: Load,
        deliveries: Deliveries,
        client: DeliveryMember,
        name: str,
        group: str,
        in_order: bool,
        rng: Random,
    ) -> None:
        self._load = load
        self._deliveries = deliveries
        self._client = client
        self._name = name
        self._worker = Worker(load, name)
        self._workers: list[Worker] = []
        self._who: dict[str, Any] = {"group": group, **({"owner": name} if in_order else {})}
        self._group = group
        self._in_order = in_order
        self._rng = rng
        self._queues: list[QueueRef] = []
        self._next: dict[int, int] = {}
        self._locked: dict[int, int] = {}
        self._beat_s = BEAT_S + (LONGEST_BEAT_S - BEAT_S) * rng.random()

    async def be_given(self, over: Callable[[], bool], options: Options) -> None:
        """Be given messages, and acknowledge them, until this member is ``over``."""
        while not over():
            read = await outcome_of(partial(self._client.pop, PULL_LIMIT, invisible_ms=options.invisible_ms))
            again = cast(Sequence[int], read.answer.value.get("again", ()))
            queues = self._load.queues
            known = [(at, one) for at, one in enumerate(read.answer.messages) if 0 <= one.queue < len(queues)]
            for queue in queues:
                new = tuple(one for place, one in known if one.queue == queue.index and place not in again)
                if new:
                    note(self._load, "seen", queue, max(one.offset for one in new))
                    await self._note_given(queue, new, read.answer)
            for one in (one for place, one in known if place in again):
                await self._note_again(queues[one.queue], one)
            await self._load.gather(*(self._acknowledge(number, one, options) for number, (_, one) in enumerate(known)))
            if not read.answer.messages:
                if read.ok:  # the system had nothing to give: so it was reached
                    await self._note_given(queues[0], (), read.answer)
                await self._load.sleep(IDLE_S)

    async def _acknowledge(self, number: int, one: Delivered, options: Options) -> None:
        """Acknowledge a message, or leave it to come again; those that came together are acknowledged at once, each by
        a process of its own."""
        queue, worker = self._load.queues[one.queue], self._worker_of(number)
        asked = {"message": one.message, "group": self._group}
        if self._rng.random() >= options.returns:
            await worker.do("ack", partial(self._client.acknowledge, one.message), queue=queue, **asked)
            return

        async def leave_it() -> Answer:
            return Answer(value={"again_ms": options.invisible_ms})

        sent = await worker.do("send_back", leave_it, queue=queue, hash=one.hash, **asked)
        self._deliveries.heard("send_back", queue, asked, sent)

    def _worker_of(self, number: int) -> Worker:
        while len(self._workers) <= number:
            self._workers.append(Worker(self._load, f"{self._name}-ack-{len(self._workers)}"))
        return self._workers[number]

    async def be(self, over: Callable[[], bool], options: Options) -> None:
        """Consume until this member is ``over``."""
        load, beat_ns, returns = self._load, 0, options.returns
        while not over():
            if load.now_ns() >= beat_ns:
                beat_ns = load.now_ns() + round(self._beat_s * 1e9)
                await self._beat()
            found = False
            for queue in list(self._queues):
                if not over() and self._may_work(queue):
                    found |= await self._consume(queue, returns)
            if not over():
                found |= await self._consume_again()
            if not found:
                await load.sleep(IDLE_S)

    async def _beat(self) -> None:
        """Learn which queues are its own; give back the locks of others, and renew those of its own."""
        told = await outcome_of(self._client.beat)
        if told.ok:
            mine = cast(Sequence[int], told.answer.value["queues"])
            lost = [queue for queue in self._queues if queue.index not in mine]
            self._queues = [queue for queue in self._load.queues if queue.index in mine]
            for queue in lost:
                self._next.pop(queue.index, None)
            if self._in_order and lost:
                self._locked = {index: until for index, until in self._locked.items() if index in mine}
                await self._unlock(lost)
        if self._in_order and self._queues:
            until_ns = self._load.now_ns() + round(self._client.lock_s * 1e9)
            asked = {"asked": [queue.index for queue in self._queues], "for_ms": round(self._client.lock_s * 1e3)}
            held = await self._worker.do("lock", lambda: self._client.lock(self._queues), **asked, **self._who)
            if held.ok:
                self._locked = dict.fromkeys(cast(Sequence[int], held.answer.value["queues"]), until_ns)

    def _may_work(self, queue: QueueRef) -> bool:
        """Return whether it may read a queue: always if queues are not locked, else while it holds the lock. Once it
        does not, it will read from where the group is by then."""
        if not self._in_order:
            return True
        if self._locked.get(queue.index, 0) > self._load.now_ns():
            return True
        self._next.pop(queue.index, None)
        return False

    async def _consume(self, queue: QueueRef, returns: float) -> bool:
        """Read some of a queue, work on it, and commit; return whether there was anything."""
        client, worker, who = self._client, self._worker, self._who
        if queue.index not in self._next:
            committed = await worker.do("committed", lambda: client.committed(queue), queue=queue, **who)
            if not committed.ok:
                return False
            self._next[queue.index] = max(0, committed.answer.offset)
        if not self._may_work(queue):
            return False
        begin = self._next[queue.index]
        read = await self._read(queue, begin)
        following = after(begin, read)
        if not read.answer.messages:
            self._next[queue.index] = following
            return following > begin
        note(self._load, "seen", queue, read.answer.messages[-1].offset)
        await self._note_given(queue, read.answer.messages, read.answer)
        if returns and not self._in_order and not await self._send_back(queue, read.answer.messages, returns):
            return True
        if not self._may_work(queue):
            return True
        self._next[queue.index] = following
        await worker.do("commit", lambda: client.commit(queue, following), queue=queue, offset=following, **who)
        return True

    async def _read(self, queue: QueueRef, begin: int) -> Outcome:
        """Read some messages. A member that locks the queue also works on them, which takes a moment, before the read
        ends: no other one may read there by then."""

        async def pull() -> Answer:
            read = await self._client.pull(queue, begin, limit=PULL_LIMIT)
            if self._in_order and read.messages:
                await self._load.sleep(WORK_S * self._rng.random())
            return read

        return await self._worker.do("pull", pull, queue=queue, offset=begin, limit=PULL_LIMIT, **self._who)

    async def _note_given(self, queue: QueueRef, messages: tuple[Delivered, ...], by: Answer) -> None:
        """Record what an answer gave to this member."""

        async def given() -> Answer:
            return Answer(node=by.node, incarnation=by.incarnation, epoch=by.epoch, messages=messages)

        asked = {"group": self._group, "in_order": int(self._in_order)}
        received = await self._worker.do("receive", given, queue=queue, **asked)
        self._deliveries.heard("receive", queue, asked, received)

    async def _send_back(self, queue: QueueRef, messages: Sequence[Delivered], returns: float) -> bool:
        """Send some messages back. Return whether all went well: what may not have been taken back is read again."""
        for one in messages:
            if one.message >= 0 and self._rng.random() < returns:
                asked = {"message": one.message, "hash": one.hash, "group": self._group}
                give = partial(self._client.send_back, queue, one.offset)
                sent = await self._worker.do("send_back", give, queue=queue, **asked)
                self._deliveries.heard("send_back", queue, asked, sent)
                if not sent.ok:
                    return False
        return True

    async def _consume_again(self) -> bool:
        """Take what came back to the group."""
        read = await outcome_of(lambda: self._client.pull_again(PULL_LIMIT))
        for one in read.answer.messages:
            if 0 <= one.queue < len(self._load.queues):
                await self._note_again(self._load.queues[one.queue], one)
        return bool(read.answer.messages)

    async def _note_again(self, queue: QueueRef, one: Delivered) -> None:
        async def given() -> Answer:
            return Answer()

        asked = {"message": one.message, "hash": one.hash, "group": self._group}
        received = await self._worker.do("receive_again", given, queue=queue, **asked)
        self._deliveries.heard("receive_again", queue, asked, received)

    async def leave(self) -> None:
        if self._in_order and self._queues:
            await self._unlock(self._queues)
        await outcome_of(self._client.leave)

    async def _unlock(self, queues: Sequence[QueueRef]) -> None:
        asked = [queue.index for queue in queues]
        await self._worker.do("unlock", lambda: self._client.unlock(queues), asked=asked, **self._who)


def create(options: Options) -> DeliveryLoad:
    return DeliveryLoad(options)
