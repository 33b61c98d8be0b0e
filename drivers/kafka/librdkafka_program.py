"""Producers and consumers with librdkafka, through confluent-kafka. STORMPROOF_ORDERS in the environment is a JSON
object with the orders; standard output and input are Stormproof's protocol for clients that are programs.

Nothing else of Stormproof is in here.
"""

from __future__ import annotations

import json
import os
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from queue import SimpleQueue
from random import Random
from threading import Event, Lock, Thread
from typing import Any, TextIO
from zlib import crc32

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

#: How long what is under way may take when the load is over.
END_S = 3.0
REQUEST_MS, SESSION_MS = 3000, 6000
#: How long a message may take: with its repetitions, when there is one attempt, and in a transaction, which is aborted
#: when its producer has left it for so long.
REPEATED_MS, ONCE_MS, IN_TRANSACTION_MS, LEFT_MS = 10_000, 5000, 6000, 10_000
#: How long a batch waits until it is complete.
LINGER_MS = 20
#: So many sends of an asynchronous producer are under way at once.
IN_FLIGHT = 8
KEYS, AT_ONCE = 20, 16
POLL_S, PAUSE_S, TRANSACTION_S = 0.5, 0.5, 10.0
Turn = Callable[[tuple[str, int]], None]
Commit = Callable[[Consumer, list[TopicPartition]], None]


def start(work: Callable[..., None], *arguments: object) -> None:
    """Do this in a thread of its own. One that fails ends the program, which says why."""

    def run() -> None:
        try:
            work(*arguments)
        except BaseException as error:
            give_up(f"{type(error).__name__}: {error}")

    Thread(target=run, daemon=True).start()


def give_up(why: str) -> None:
    """End the program, since it can't do what it was told to."""
    print(why, file=sys.stderr, flush=True)
    os._exit(1)


class Operation:
    """An operation that has been recorded as begun."""

    def __init__(self, harness: Harness, number: int, begun: Mapping[str, Any]) -> None:
        self._harness = harness
        self._number = number
        self.key = str(begun.get("key", "")).encode()
        self.body = str(begun.get("body", "")).encode()

    def ok(self, **more: object) -> None:
        """Say that it happened."""
        self._harness.end(self._number, "ok", more)

    def fail(self, reason: object) -> None:
        """Say that it surely did not happen."""
        self._harness.end(self._number, "fail", {"reason": str(reason)[:300]})

    def unknown(self, reason: object) -> None:
        """Say that it may have happened."""
        self._harness.end(self._number, "info", {"reason": str(reason)[:300]})


class Harness:
    """The other end of standard input and output. All threads share it."""

    def __init__(self, lines: TextIO, words: TextIO) -> None:
        self._lines, self._words = lines, words
        self._lock = Lock()
        self._numbers = count(1)
        self._waiting: dict[int, SimpleQueue[Mapping[str, Any]]] = {}
        self._open: set[int] = set()

    def begin(self, f: str, process: str, queue: int, **more: object) -> Operation:
        """Tell that an operation is about to begin, and wait until it is recorded. Never returns once the load is over:
        then nobody would hear of what the operation does."""
        number = next(self._numbers)
        word = self._waiting[number] = SimpleQueue()
        self._write({"id": number, "type": "invoke", "f": f, "process": process, "queue": queue, **more})
        begun = word.get()
        self._open.add(number)
        return Operation(self, number, begun)

    def end(self, number: int, kind: str, more: Mapping[str, object]) -> None:
        """Say how an operation ended."""
        self._write({"id": number, "type": kind, **more})
        self._open.discard(number)

    def listen(self) -> None:
        """Take words until the load is over, then wait for what is under way, within a bound."""
        for line in self._words:
            begun = json.loads(line)
            self._waiting.pop(begun["id"]).put(begun)
        end_s = time.monotonic() + END_S
        while self._open and time.monotonic() < end_s:
            time.sleep(0.05)

    def _write(self, line: Mapping[str, object]) -> None:
        text = json.dumps(line) + "\n"
        with self._lock:
            self._lines.write(text)
            self._lines.flush()


class Orders:
    """What the program was told to do, and how its clients are set up for it."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self._told = told
        self.queues: Sequence[tuple[str, int]] = [(one["topic"], one["queue"]) for one in told["queues"]]
        self.name = str(told["name"])
        self.isolation = str(told["isolation"])
        #: Errors after which a message was surely not appended by the attempt that they answer.
        self.not_appended = frozenset(map(int, told["not_appended"]))
        #: Whether producers are idempotent, so that they can send again what was not acknowledged.
        self.can_repeat = bool(told["idempotent"])
        self.has_members = bool(told["members"])

    def count(self, kind: str) -> int:
        """Return how many there shall be of a kind of producers or consumers."""
        return int(self._told.get(kind, 0))

    def random(self, process: str) -> Random:
        """Return a producer's own source of random numbers."""
        return Random(f"{self._told['seed']}/{process}")

    def pace(self, random: Random, take: Callable[[tuple[str, int]], None]) -> None:
        """Take one turn after another, evenly spaced, each with the next queue; after a long turn go on at the same
        pace, without catching up."""
        gap_s = self._told["gap_ns"] / 1e9
        due = time.monotonic() + gap_s * random.random()
        for number in count(random.randrange(1000)):
            now = time.monotonic()
            time.sleep(max(0.0, due - now))
            due = max(due, now) + gap_s
            take(self.queues[number % len(self.queues)])

    def producer(self, process: str, **more: object) -> Producer:
        """Return a client, whose answers a thread of its own takes."""
        made = Producer({**self._common(process), "acks": self._told["acks"], **more})
        start(_poll, made)
        return made

    def consumer(self, process: str, group: str, protocol: Mapping[str, object], *, commits: bool) -> Consumer:
        """Return a client. What it commits by itself is what it was told to have done with."""
        reads = {
            "isolation.level": self.isolation,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 200,
            "allow.auto.create.topics": False,
        }
        stores = {"enable.auto.commit": commits, "enable.auto.offset.store": False, "auto.commit.interval.ms": 1000}
        return Consumer({**self._common(process), "group.id": group, **reads, **stores, **protocol})

    def _common(self, process: str) -> dict[str, object]:
        return {
            "bootstrap.servers": self._told["bootstrap"],
            "client.id": f"{self.name}-{process}",
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": 5000,
            "socket.connection.setup.timeout.ms": 2000,
        }


def _poll(producer: Producer) -> None:
    while True:
        producer.poll(POLL_S)


class Sent:
    """One message on its way, and what its end says of what became of it: only what is sure is called sure."""

    def __init__(
        self, operation: Operation, queue: tuple[str, int], sure: frozenset[int], idle: Callable[[], None] | None = None
    ) -> None:
        """``sure``: the errors after which it was not stored by its only attempt; none if there may be several.
        ``idle``: what to do when it has ended."""
        self._operation = operation
        self._topic, self._partition = queue
        self._sure = sure
        self._idle = idle
        self._done = Event()

    def begin(self, producer: Producer) -> None:
        """Give the message to the library, which will say how it ended. Raises ``KafkaException`` for a client that can
        never send again."""
        asked = {"key": self._operation.key, "value": self._operation.body, "partition": self._partition}
        try:
            producer.produce(self._topic, on_delivery=self._ended, **asked)
        except (BufferError, KafkaException) as error:  # it never was in a queue of the library's
            self._operation.fail(error)
            self._end()
            if isinstance(error, KafkaException) and error.args[0].fatal():
                raise

    def wait(self) -> None:
        """Wait until it has ended."""
        self._done.wait()

    def _ended(self, error: Any, message: Any) -> None:
        if error is not None and error.code() in self._sure:
            self._operation.fail(error)
        elif error is not None:
            self._operation.unknown(error)
        elif message.partition() != self._partition:
            give_up(f"a message to partition {self._partition} was stored in {message.partition()}")
        elif message.offset() is None or message.offset() < 0:
            self._operation.unknown("it was stored at an offset that the broker has not said")
        else:
            self._operation.ok(offset=message.offset())
        self._end()

    def _end(self) -> None:
        self._done.set()
        if self._idle is not None:
            self._idle()


class Producers:
    """All ways to send but transactions, each producer with a client of its own, and another one after it if it can
    never send again."""

    def __init__(self, orders: Orders, harness: Harness) -> None:
        self._orders = orders
        self._harness = harness

    def start(self) -> None:
        """Start them all."""
        repeats = self._orders.can_repeat
        for kind, sends, can_repeat, linger_ms in (
            ("sync", self._sync, False, 0),
            ("async", self._async, repeats, 0),
            ("ordered", self._ordered, repeats, 0),
            ("batch", self._batch, repeats, LINGER_MS),
        ):
            once = {"retries": 0, "message.timeout.ms": ONCE_MS}
            again = {"enable.idempotence": True, "message.timeout.ms": REPEATED_MS}
            settings = {"linger.ms": linger_ms, "request.timeout.ms": REQUEST_MS, **(again if can_repeat else once)}
            for number in range(self._orders.count(kind)):
                start(self._run, f"{kind}-{number}", settings, sends)

    def _run(self, process: str, settings: Mapping[str, object], sends: Callable[..., Turn]) -> None:
        while True:
            producer = self._orders.producer(process, **settings)
            random = self._orders.random(process)
            try:
                self._orders.pace(random, sends(process, producer, random))
            except KafkaException as error:
                print(f"{process}: {error}", file=sys.stderr, flush=True)
                time.sleep(PAUSE_S)

    def _message(
        self, process: str, queue: tuple[str, int], via: str, idle: Callable[[], None] | None = None, **more: object
    ) -> Sent:
        number = self._orders.queues.index(queue)
        operation = self._harness.begin("send", process, number, via=via, **more)
        once = via == "sync" or not self._orders.can_repeat
        return Sent(operation, queue, self._orders.not_appended if once else frozenset(), idle)

    def _sync(self, process: str, producer: Producer, random: Random) -> Turn:
        """One attempt: not idempotent, and never repeated."""

        def turn(queue: tuple[str, int]) -> None:
            sent = self._message(process, queue, "sync")
            sent.begin(producer)
            sent.wait()

        return turn

    def _async(self, process: str, producer: Producer, random: Random) -> Turn:
        """Several sends of each producer are under way at once, each by a process of its own."""
        idle: SimpleQueue[str] = SimpleQueue()
        for number in range(IN_FLIGHT):
            idle.put(f"{process}-{number}")

        def turn(queue: tuple[str, int]) -> None:
            mine = idle.get()
            self._message(mine, queue, "async", lambda: idle.put(mine)).begin(producer)

        return turn

    def _ordered(self, process: str, producer: Producer, random: Random) -> Turn:
        """Messages of one key go to one queue: the one that librdkafka's own partitioner chooses for the key."""

        def turn(queue: tuple[str, int]) -> None:
            key = f"key-{random.randrange(KEYS)}"
            chosen = self._orders.queues[crc32(key.encode()) % len(self._orders.queues)]
            sent = self._message(process, chosen, "ordered", ordering_key=key)
            sent.begin(producer)
            sent.wait()

        return turn

    def _batch(self, process: str, producer: Producer, random: Random) -> Turn:
        """The library gathers them into as few requests as it can; each message has an outcome of its own."""

        def turn(queue: tuple[str, int]) -> None:
            size = self._orders.count("batch_size")
            messages = [self._message(f"{process}-{number}", queue, "batch") for number in range(size)]
            for one in messages:
                one.begin(producer)
            for one in messages:
                one.wait()

        return turn


class Owner:
    """The owner of a transactional id, through one client after another: each message has a transaction of its own,
    which is committed or aborted. An earlier program's owner had the same id."""

    def __init__(self, process: str, orders: Orders, harness: Harness) -> None:
        self._process = process
        self._orders = orders
        self._harness = harness
        self._producer: Any = None
        self._left: list[Producer] = []  # to take one down would wait for what it has under way

    def run(self) -> None:
        """Commit two of three, and abort the others."""
        random = self._orders.random(self._process)
        self._orders.pace(random, lambda queue: self._transact(queue, commits=random.randrange(3) > 0))

    def take_over(self) -> None:
        """End what an earlier owner has left, once for each client."""
        settings = {
            "transactional.id": f"{self._orders.name}-{self._process}",
            "transaction.timeout.ms": LEFT_MS,
            "message.timeout.ms": IN_TRANSACTION_MS,
            "linger.ms": 0,
            "acks": "all",
        }
        made = None
        while self._producer is None:
            made = made or self._orders.producer(self._process, **settings)
            try:
                made.init_transactions(TRANSACTION_S)
                self._producer = made
            except KafkaException as error:
                self._leave(made, error)
                made = made if error.args[0].retriable() else None  # one that goes on trying would fence the next one

    def _transact(self, queue: tuple[str, int], *, commits: bool) -> None:
        self.take_over()
        number, decision = self._orders.queues.index(queue), "commit" if commits else "rollback"
        operation = self._harness.begin("transact", self._process, number, via="end", decision=decision)
        ended: SimpleQueue[Any] = SimpleQueue()
        topic, partition = queue
        asked = {"key": operation.key, "value": operation.body, "partition": partition}
        try:
            self._producer.begin_transaction()
            self._producer.produce(topic, on_delivery=lambda error, message: ended.put(error), **asked)
            wrong = ended.get()
        except (BufferError, KafkaException) as error:
            wrong = error
        if wrong is not None:  # nobody has asked for its commit, and nobody will
            operation.fail(wrong)
            self._leave(self._producer, wrong)
            return
        try:
            end = self._producer.commit_transaction if commits else self._producer.abort_transaction
            end(TRANSACTION_S)
            operation.ok()
        except KafkaException as error:
            operation.unknown(error)
            self._leave(self._producer, error)

    def _leave(self, producer: Producer, why: object) -> None:
        """Leave the transaction to the next client of this id."""
        print(f"{self._process}: {why}", file=sys.stderr, flush=True)
        self._left.append(producer)
        self._producer = None
        time.sleep(PAUSE_S)


class Consumers:
    """One group of each kind of consumers, all in the order of the partitions. What was recorded is committed."""

    def __init__(self, orders: Orders, harness: Harness) -> None:
        self._orders = orders
        self._harness = harness

    def start(self) -> None:
        """Start them all."""
        classic = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 1000}
        by_broker = {"group.protocol": "consumer"}
        in_turn = {**classic, "partition.assignment.strategy": "range"}
        sticky = {**classic, "partition.assignment.strategy": "cooperative-sticky"}
        for kind, protocol, commit in (
            ("push", by_broker if self._orders.has_members else in_turn, _store),
            ("orderly", sticky, _commit),
            ("pull", in_turn, _commit_later),
        ):
            for number in range(self._orders.count(kind)):
                start(self._run, f"{kind}-{number}", f"library-{kind}", protocol, commit)

    def _run(self, process: str, group: str, protocol: Mapping[str, object], commit: Commit) -> None:
        """Follow the queues. A client that can't go on is followed by another one."""
        while True:
            consumer = self._orders.consumer(process, group, protocol, commits=commit is _store)
            consumer.subscribe(sorted({topic for topic, _ in self._orders.queues}))
            while self._follow(process, group, consumer, commit):
                pass
            time.sleep(PAUSE_S)

    def _follow(self, process: str, group: str, consumer: Consumer, commit: Commit) -> bool:
        found: dict[tuple[str, int], list[Any]] = {}
        for message in consumer.consume(AT_ONCE, POLL_S):
            if message.error() is None:
                found.setdefault((message.topic(), message.partition()), []).append(message)
                continue
            print(f"{process}: {message.error()}", file=sys.stderr, flush=True)
            if message.error().fatal():
                return False
        for queue, messages in found.items():
            self._record(process, group, queue, messages)
        if found:
            try:
                commit(consumer, [TopicPartition(*queue, mine[-1].offset() + 1) for queue, mine in found.items()])
            except KafkaException as error:  # then the next owner of these partitions is given some of it again
                print(f"{process}: commit: {error}", file=sys.stderr, flush=True)
        return True

    def _record(self, process: str, group: str, queue: tuple[str, int], messages: Sequence[Any]) -> None:
        """Never returns once the load is over, so that nothing of this is committed."""
        number = self._orders.queues.index(queue)
        operation = self._harness.begin("receive", process, number, group=group, in_order=1)
        told = [
            {
                "offset": message.offset(),
                "key": (message.key() or b"").decode("utf-8", "replace"),
                "base64": b64encode(message.value() or b"").decode(),
            }
            for message in messages
        ]
        operation.ok(messages=told)


def _store(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    consumer.store_offsets(offsets=offsets)


def _commit(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    consumer.commit(offsets=offsets, asynchronous=False)


def _commit_later(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    consumer.commit(offsets=offsets, asynchronous=True)


def main() -> None:
    """Do what was ordered until the load is over."""
    orders, harness = Orders(json.loads(os.environ["STORMPROOF_ORDERS"])), Harness(sys.stdout, sys.stdin)
    Consumers(orders, harness).start()
    for number in range(orders.count("transaction")):
        start(Owner(f"transaction-{number}", orders, harness).run)
    for number in range(orders.count("answer_checks")):
        start(Owner(f"transaction-{number}", orders, harness).take_over)
    Producers(orders, harness).start()
    harness.listen()
    os._exit(0)  # nothing is closed in order: a consumer would then commit what nobody has recorded


if __name__ == "__main__":
    main()
