"""Messages found by their keys, or by their place in the log, as administrators look for them.

The index is in memory and costs nothing before the first question: then it reads what is confirmed of the local log, a
slice in one step, and the question waits until it has come as far as the log was confirmed when it was asked. What the
log has dropped is found no more, though the tier may hold it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from zlib import crc32

from chaos.node import Env
from reference.broker import properties
from reference.broker.parts import Refused, Service
from reference.broker.queues import Queues
from reference.broker.records import SYSTEM, Record, decode
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import optional_text, text, whole

#: So much of the log is read in one step.
STEP_BYTES = 4 << 20
#: An answer has so many messages, and so many bytes but for the first one.
MAX_FOUND, MAX_FOUND_BYTES = 64, 4 << 20
#: So many questions wait at a time, and so many records are read for each: checksums of keys may have been made alike.
MAX_WAITING, MAX_READ = 64, 1024
#: So many entries are searched at once, from the newest on.
_BLOCK = 1 << 16
_SEPARATOR = " "  # between the words of KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """Which messages are looked for: of a topic, with a key, stored at ``begin_ms`` to ``end_ms``."""

    source: str
    request: Command
    topic: str
    key: str
    unique: bool
    most: int
    begin_ms: int
    end_ms: int
    queues: Queues
    upto: int

    @classmethod
    def read(cls, source: str, message: Command, queues: Queues) -> _Question:
        """Read a 12, which asks for what is confirmed now. Raises :class:`chaos.node.Malformed`."""
        fields = message.fields
        kind, unique = optional_text(fields, "indexType"), fields.get("_UNIQUE_KEY_QUERY") == "true"
        if kind not in ("", "K", "U"):
            raise Refused(Response.INVALID_PARAMETER, f"indexType must be K or U, not {kind[:40]!r}")
        return cls(
            source=source,
            request=message,
            topic=text(fields, "topic"),
            key=text(fields, "key"),
            unique=unique or kind == "U",
            most=max(1, min(whole(fields, "maxNum"), MAX_FOUND)),
            begin_ms=whole(fields, "beginTimestamp"),
            end_ms=whole(fields, "endTimestamp"),
            queues=queues,
            upto=queues.dispatched,
        )

    def means(self, record: Record) -> bool:
        """Return whether a record is one of those: two keys may have the same checksum."""
        if record.topic != self.topic or not self.begin_ms <= record.store_ms <= self.end_ms:
            return False
        own, others = _keys(record)
        return self.key == own or (not self.unique and self.key in others)


class MessageIndex:
    """The broker calls :meth:`go_on` when its timer ``timer`` fires."""

    def __init__(self, broker: Service, timer: str) -> None:
        self._broker = broker
        self._timer = timer
        self._queues: object = None  # those whose log is indexed
        self._at = 0
        # In the order of the log, one entry for each key of a message:
        self._positions, self._times_ms, self._sums = array("q"), array("q"), array("I")
        self._waiting: list[_Question] = []

    # Requests

    def by_key(self, env: Env, source: str, message: Command) -> None:
        """12: the newest messages of a topic with a key, stored in a time."""
        self._broker.must_serve(any_replica=True)
        question = _Question.read(source, message, self._broker.queues)
        if len(self._waiting) >= MAX_WAITING:
            raise Refused(Response.SYSTEM_BUSY, "busy: too many questions wait for the index")
        self._waiting.append(question)
        self.go_on(env)

    def by_position(self, env: Env, source: str, message: Command) -> None:
        """33: the message at a position of the log."""
        self._broker.must_serve(any_replica=True)
        position, queues = whole(message.fields, "offset"), self._broker.queues
        data = b""
        if self._broker.log.first <= position < queues.dispatched and queues.begins_at(position):
            data = self._broker.log.read_records(env, position, 1)
        if not data or not queues.holds(decode(data)):
            raise Refused(Response.SYSTEM_ERROR, f"can not find message by the offset, {position}")
        env.send(source, message.reply(body=data))

    # The index

    def go_on(self, env: Env) -> None:
        """Index another slice, and answer the questions that wait for no more."""
        if not self._waiting:
            return
        try:
            self._broker.must_serve(any_replica=True)  # else what is known of the log may hold no more
        except Refused as refusal:
            self._refuse(env, self._waiting, refusal.code, str(refusal))
            return
        self._follow_log(env)
        self._read_slice(env)
        ready = [question for question in self._waiting if question.upto <= self._at]
        self._waiting = [question for question in self._waiting if question.upto > self._at]
        for question in ready:
            self._answer(env, question)
        self.wake(env)

    def wake(self, env: Env) -> None:
        """Have the timer fire in the next step, if a question waits."""
        if self._waiting:
            env.set_timer(self._timer, 0)

    def closed(self, peer: str) -> None:
        """Forget the questions of a client that is gone."""
        self._waiting = [question for question in self._waiting if question.source != peer]

    def _follow_log(self, env: Env) -> None:
        """Drop what the log has dropped. Begin again with another log; who asked for the old one is to ask again."""
        queues, first = self._broker.queues, self._broker.log.first
        gone = bisect_left(self._positions, first)
        if queues is not self._queues:
            old = [question for question in self._waiting if question.queues is not queues]
            self._refuse(env, old, Response.SYSTEM_BUSY, "retry: the log has begun again")
            self._queues, self._at, gone = queues, first, len(self._positions)
        self._at = max(self._at, first)
        del self._positions[:gone], self._times_ms[:gone], self._sums[:gone]

    def _refuse(self, env: Env, questions: Sequence[_Question], code: Response, remark: str) -> None:
        self._waiting = [question for question in self._waiting if question not in questions]
        for question in questions:
            env.send(question.source, question.request.reply(code, remark=remark))

    def _read_slice(self, env: Env) -> None:
        log, end = self._broker.log, self._broker.queues.dispatched
        left = STEP_BYTES
        while self._at < end and left > 0:
            data = log.read_records(env, self._at, min(left, end - self._at))
            for record in log.decode_all(data):
                self._add(record)
            self._at += len(data)
            left -= len(data)

    def _add(self, record: Record) -> None:
        if record.topic in SYSTEM:
            return
        own, others = _keys(record)
        for key in {own, *others} - {""}:
            self._positions.append(record.position)
            self._times_ms.append(record.store_ms)
            self._sums.append(_sum(record.topic, key))

    # Answers

    def _answer(self, env: Env, question: _Question) -> None:
        found: list[bytes] = []
        size = 0
        for position in islice(self._candidates(question), MAX_READ):
            data = self._broker.log.read_records(env, position, 1)
            record = decode(data)
            if not question.means(record) or not self._broker.queues.holds(record):
                continue
            size += len(data)
            if found and size > MAX_FOUND_BYTES:
                break
            found.append(data)
            if len(found) == question.most:
                break
        newest_ms = self._times_ms[-1] if self._times_ms else 0
        fields = {"indexLastUpdateTimestamp": str(newest_ms), "indexLastUpdatePhyoffset": str(self._at)}
        code, remark = Response.SUCCESS, ""
        if not found:
            code, remark = Response.QUERY_NOT_FOUND, "can not find message, maybe time range not correct"
        env.send(question.source, question.request.reply(code, fields, b"".join(found), remark))

    def _candidates(self, question: _Question) -> Iterator[int]:
        """Yield the positions of messages that may be meant, the newest first."""
        wanted, last = _sum(question.topic, question.key), -1
        for end in range(len(self._sums), 0, -_BLOCK):
            begin = max(0, end - _BLOCK)
            for at in reversed(_places(self._sums[begin:end], wanted)):
                position = self._positions[begin + at]
                if position != last and question.begin_ms <= self._times_ms[begin + at] <= question.end_ms:
                    yield (last := position)


def _places(sums: array[int], wanted: int) -> list[int]:
    found: list[int] = []
    with suppress(ValueError):
        while True:
            found.append(sums.index(wanted, found[-1] + 1 if found else 0))
    return found


def _keys(record: Record) -> tuple[str, frozenset[str]]:
    """Return the key that its client has made for it alone, and its KEYS."""
    named = properties.read(record.properties)
    return named.get(properties.KEY, ""), frozenset(named.get("KEYS", "").split(_SEPARATOR))


def _sum(topic: str, key: str) -> int:
    return crc32(f"{topic}#{key}".encode())
