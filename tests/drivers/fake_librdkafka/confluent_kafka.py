"""As much of confluent-kafka as the program uses, over a Kafka that is a file: a line for each message and commit.

FAKE in the environment says what is wrong with it: ``unstored`` acknowledges each tenth message without storing it,
``refused`` answers each third with an error after which it was surely not stored, and ``aborted`` stores what is in a
transaction whatever becomes of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any

FILE, WRONG = Path(os.environ["FAKE_FILE"]), os.environ.get("FAKE", "")
NOT_ENOUGH_REPLICAS = 19
_NUMBERS = count(1)


class KafkaError(Exception):
    """An error of the broker's."""

    def __init__(self, code: int) -> None:
        super().__init__(f"error {code}")
        self._code = code

    def code(self) -> int:
        return self._code

    def fatal(self) -> bool:
        return False


class KafkaException(Exception):
    """What the library throws; its first argument is a :class:`KafkaError`."""


class TopicPartition:
    def __init__(self, topic: str, partition: int, offset: int = -1) -> None:
        self.topic, self.partition, self.offset = topic, partition, offset


class Message:
    def __init__(self, topic: str, line: Mapping[str, Any]) -> None:
        self._topic, self._line = topic, line

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return int(self._line["partition"])

    def offset(self) -> int:
        return int(self._line["offset"])

    def key(self) -> bytes:
        return str(self._line["key"]).encode()

    def value(self) -> bytes:
        return b64decode(self._line["body"])

    def error(self) -> None:
        return None


@contextmanager
def _file() -> Iterator[IO[str]]:
    with FILE.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        yield file


def _append(partition: int, messages: list[tuple[bytes, bytes]], marks: int = 0) -> int:
    """Return the offset of the first one; ``marks`` take one each behind them."""
    with _file() as file:
        ends = [line["end"] for line in map(json.loads, file) if line.get("partition") == partition]
        first = max(ends, default=0)
        for at, (key, body) in enumerate(messages):
            line = {"partition": partition, "offset": first + at, "key": key.decode()}
            end = first + len(messages) + marks
            file.write(json.dumps({**line, "body": b64encode(body).decode(), "end": end}) + "\n")
        return int(first)


class Producer:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        assert settings["bootstrap.servers"] and settings["client.id"], settings
        self._answers: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._transactional = "transactional.id" in settings
        self._open: list[tuple[int, bytes, bytes]] = []

    def produce(
        self, topic: str, *, value: bytes, key: bytes, partition: int, on_delivery: Callable[[Any, Any], None]
    ) -> None:
        number = next(_NUMBERS)
        tenth = number % 10 == 0
        if number % 3 == 0 and WRONG == "refused" and not self._transactional:
            self._answers.put(lambda: on_delivery(KafkaError(NOT_ENOUGH_REPLICAS), None))
            return
        if self._transactional and WRONG != "aborted":
            self._open.append((partition, key, value))
            offset = 0
        elif tenth and WRONG == "unstored" and not self._transactional:
            offset = 10_000 + next(_NUMBERS)
        else:
            offset = _append(partition, [(key, value)])
        message = Message(topic, {"partition": partition, "offset": offset})
        self._answers.put(lambda: on_delivery(None, message))

    def poll(self, timeout: float) -> None:
        try:
            self._answers.get(timeout=timeout)()
        except Empty:
            pass

    def init_transactions(self, timeout: float) -> None:
        self._open.clear()

    def begin_transaction(self) -> None:
        assert not self._open

    def commit_transaction(self, timeout: float) -> None:
        for partition, key, value in self._open:
            _append(partition, [(key, value)], marks=1)
        self._open.clear()

    def abort_transaction(self, timeout: float) -> None:
        self._open.clear()


class Consumer:
    """It owns all partitions: there is one in each group."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._group = settings["group.id"]
        self._topic = ""
        self._next: dict[int, int] = {}
        with _file() as file:
            for line in map(json.loads, file):
                if line.get("group") == self._group:
                    self._next[line["of"]] = line["committed"]

    def subscribe(self, topics: list[str]) -> None:
        (self._topic,) = topics

    def consume(self, limit: int, timeout: float) -> list[Message]:
        with _file() as file:
            lines = [line for line in map(json.loads, file) if line.get("offset", -1) >= 0]
        found = [line for line in lines if line["offset"] >= self._next.get(line["partition"], 0)][:limit]
        for line in found:
            self._next[line["partition"]] = line["offset"] + 1
        if not found:
            time.sleep(timeout / 5)
        return [Message(self._topic, line) for line in found]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool = True) -> None:
        with _file() as file:
            for one in offsets:
                file.write(json.dumps({"group": self._group, "of": one.partition, "committed": one.offset}) + "\n")

    def store_offsets(self, *, offsets: list[TopicPartition]) -> None:
        self.commit(offsets=offsets)
