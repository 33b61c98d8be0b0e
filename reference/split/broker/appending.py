"""How a broker appends to a group: batches at positions that it knows, several under way, acknowledged in order.

The broker alone writes in its epoch, so it counts positions and queue offsets itself, from where its FENCE found them.
An append is a compare-and-append on the group's end. So it can be made again, with the same bytes at the same position,
until it is known to stand there: bytes at a position are never replaced within an epoch (R3). What became of an append
that has left is unknown until it is answered; only the refusal of its single try is definite (R2).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from chaos import events
from chaos.node import Env
from reference.broker.parts import Refused
from reference.broker.records import message_id
from reference.broker.sends import PendingRequest, SendRequest
from reference.split.broker.asking import Outcome, Stores
from reference.split.broker.queues import OpenQueue
from reference.split.requests import MAX_POSITION, AppendAnswer, AppendRequest, physical_offset
from reference.wire.codes import Response
from reference.wire.command import Command

#: So many bytes and topics has a batch at most; so many bytes of a group may wait for their acknowledgement.
BATCH_BYTES, BATCH_TOPICS, MAX_UNRESOLVED_BYTES = 1 << 20, 256, 16 << 20
#: How a group may be lost: another epoch began there, or what stands there contradicts what this broker knows.
LOST = (Response.GROUP_FENCED, Response.GROUP_OTHER)
_MS = 1_000_000


@dataclass(slots=True)
class Batch:
    """Records that are appended together. Until it leaves for the first time it takes more of them."""

    position: int
    size: int = 0
    parts: list[bytes] = field(default_factory=list)
    queues: list[OpenQueue] = field(default_factory=list)  # of each record
    topics: dict[str, int] = field(default_factory=dict)
    records: bytes = b""
    crc: int = 0
    tries: int = 0
    is_under_way: bool = False
    is_stored: bool = False
    is_refused: bool = False  # its last answer was that another epoch has begun

    @property
    def end(self) -> int:
        return self.position + self.size

    def may_name(self, topic: str, topic_id: int) -> bool:
        """Return whether a topic may be in its table: one that was deleted and made again has another id."""
        known = self.topics.get(topic)
        return len(self.topics) < BATCH_TOPICS if known is None else known == topic_id

    def add(self, queue: OpenQueue, topic: str, data: bytes) -> None:
        self.parts.append(data)
        self.queues.append(queue)
        self.topics[topic] = queue.topic_id
        self.size += len(data)

    def close(self) -> None:
        """Take no more records: it leaves."""
        self.records = b"".join(self.parts)
        self.crc = crc32(self.records)


class Appends:
    """The appends to one group in one epoch. ``lost`` is called once it turns out that the epoch is over here."""

    def __init__(
        self,
        stores: Stores,
        group: int,
        epoch: int,
        end: int,
        lost: Callable[[Env, int], None],
        window: int,
    ) -> None:
        self.group = group
        self.epoch = epoch
        self.end = self.first_position(end)  # of what was given a position
        self.acknowledged = self.end
        self.pending: deque[PendingRequest] = deque()  # by position, as are the deadlines
        self._stores = stores
        self._lost = lost
        self._window = window
        self._batches: deque[Batch] = deque()  # not acknowledged yet
        self._attempt = 0  # raised when all that is unresolved has to be sent again
        self._waits = False  # until then, nothing leaves
        self._is_closed = False

    # Policy

    def first_position(self, end: int) -> int:
        """Return where this broker's first record goes, after a FENCE that found this end."""
        return end

    def acknowledged_end(self) -> int:
        """Return up to where all is stored: an acknowledgement stands for every position before it."""
        end = self.acknowledged
        for batch in self._batches:
            if not batch.is_stored:
                break
            end = batch.end
        return end

    def has_landed(self, batch: Batch, outcome: Outcome[AppendAnswer]) -> bool:
        """Return whether an answer says that a batch stands in the group, and with it all before it."""
        return outcome.answer is not None and outcome.answer.end >= batch.end

    def is_definite(self, batch: Batch) -> bool:
        """Return whether a batch is surely not stored, nor ever will be: it never left, or it was refused when its
        single try was applied. After a second try the first one may be what is stored."""
        return batch.tries == 0 or (batch.tries == 1 and batch.is_refused)

    def stored(self, env: Env, batch: Batch) -> None:
        """Act on a batch that stands in the group: what is acknowledged can be read, so readers see it first."""
        end = self.acknowledged_end()
        self.show(end)
        self.answer(env, end)

    # Records come

    def append(
        self, env: Env, source: str, message: Command, asked: SendRequest, queue: OpenQueue, deadline_ns: int
    ) -> None:
        """Give a message the next place. Raises :class:`Refused` before anything has happened."""
        if self.end - self.acknowledged > MAX_UNRESOLVED_BYTES:
            raise Refused(Response.SYSTEM_BUSY, f"busy: {self.end - self.acknowledged} bytes wait to be stored")
        position = physical_offset(self.group, self.end)
        client, here = env.endpoints(source)
        data = asked.record(
            queue_id=queue.number,
            offset=queue.next,
            position=position,
            store_ms=env.wall_ns() // _MS,
            born_host=client,
            store_host=here,
        )
        if self.end + len(data) >= MAX_POSITION:
            raise Refused(Response.SERVICE_NOT_AVAILABLE, f"group {self.group} is full")
        answer = {
            "msgId": message_id(here, position),
            "queueId": str(queue.rank),
            "queueOffset": str(queue.next),
            "position": str(position),
            "epoch": str(self.epoch),
            "incarnation": str(env.incarnation),
        }
        self._batch_for(len(data), asked.topic, queue.topic_id).add(queue, asked.topic, data)
        queue.next += 1
        self.end += len(data)
        self.pending.append(PendingRequest(self.end, source, message, message.reply(fields=answer), deadline_ns))
        self._send(env)

    def _batch_for(self, size: int, topic: str, topic_id: int) -> Batch:
        last = self._batches[-1] if self._batches else None
        if last is None or last.tries > 0 or last.size + size > BATCH_BYTES or not last.may_name(topic, topic_id):
            last = Batch(self.end)
            self._batches.append(last)
        return last

    # Batches leave

    def _send(self, env: Env) -> None:
        """Send what may be under way; what comes meanwhile gathers in the last batch."""
        if self._waits or self._is_closed:
            return
        free = self._window - sum(batch.is_under_way for batch in self._batches)
        for batch in tuple(self._batches) if free > 0 else ():
            if free > 0 and not (batch.is_under_way or batch.is_stored):
                free -= 1
                self._ask(env, batch)

    def _ask(self, env: Env, batch: Batch) -> None:
        attempt = self._attempt
        if batch.tries == 0:
            batch.close()
        batch.tries += 1
        batch.is_under_way = True

        request = AppendRequest(
            group=self.group,
            epoch=self.epoch,
            position=batch.position,
            crc=batch.crc,
            topics=batch.topics,
            records=batch.records,
        )

        def came(env: Env, outcome: Outcome[AppendAnswer]) -> None:
            if not self._is_closed:
                self._came(env, batch, attempt, outcome)

        self._stores.ask_leader(env, self.group, request, AppendAnswer.read, came)

    def _came(self, env: Env, batch: Batch, attempt: int, outcome: Outcome[AppendAnswer]) -> None:
        if self.has_landed(batch, outcome):
            if attempt == self._attempt:
                batch.is_under_way = False
            if not batch.is_stored:
                batch.is_stored = True
                self.stored(env, batch)
            self._send(env)
        elif outcome.code in LOST:
            batch.is_refused = outcome.code == Response.GROUP_FENCED
            self._lost(env, outcome.code)
        elif attempt == self._attempt:
            self._begin_again(env, outcome)

    def _begin_again(self, env: Env, outcome: Outcome[AppendAnswer]) -> None:
        """Send all that is unresolved again, from the first one on: the leader may be another one, which lacks what was
        under way."""
        self._attempt += 1
        self._waits = True
        for batch in self._batches:
            batch.is_under_way = False

        def again(env: Env) -> None:
            self._waits = False
            self._send(env)

        self._stores.again(env, outcome, again)

    # Answers

    def show(self, end: int) -> None:
        """Let readers see what is stored up to ``end``."""
        while self._batches and self._batches[0].end <= end:
            batch = self._batches.popleft()
            self.acknowledged = batch.end
            for queue, data in zip(batch.queues, batch.parts, strict=True):
                queue.grow(data)

    def answer(self, env: Env, end: int) -> None:
        """Acknowledge to producers what is stored up to ``end``, in the order of positions."""
        answered = -1
        while self.pending and self.pending[0].end <= end:
            waiting = self.pending.popleft()
            answered = waiting.end
            waiting.respond(env, waiting.answer)
        if answered >= 0:
            env.trace(events.GroupAcked(epoch=self.epoch, position=answered, group=self.group))

    def expire(self, env: Env) -> None:
        """End requests that waited too long. Their outcome is unknown, and their records go on being appended."""
        now = env.mono_ns()
        while self.pending and self.pending[0].deadline_ns <= now:
            self._unknown(env, self.pending.popleft(), "not acknowledged in time")

    def close(self, env: Env) -> None:
        """End the requests that wait, since the slice is lost."""
        self._is_closed = True
        for batch in self._batches:
            while self.pending and self.pending[0].end <= batch.end:
                waiting = self.pending.popleft()
                if self.is_definite(batch):
                    remark = "the slice has another owner; the message is not stored"
                    waiting.respond(env, waiting.request.reply(Response.SERVICE_NOT_AVAILABLE, remark=remark))
                else:
                    self._unknown(env, waiting, "the slice was lost before the message was acknowledged")

    def _unknown(self, env: Env, waiting: PendingRequest, remark: str) -> None:
        """Answer with the place that the record was given: RocketMQ's client reads it from such an answer, too."""
        fields = waiting.answer.fields
        waiting.respond(env, waiting.request.reply(Response.FLUSH_SLAVE_TIMEOUT, fields, remark=remark))

    def unresolved(self) -> Sequence[Batch]:
        """Return what is not acknowledged yet, by position."""
        return tuple(self._batches)
