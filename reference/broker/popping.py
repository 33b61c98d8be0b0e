"""Pop consumption: the broker chooses what a member of a group is given, and each message is acknowledged by itself.

What is given is invisible to the group for a time. What is not acknowledged by then comes again, from a topic of the
group's own. RocketMQ keeps check points and acknowledgements in a topic of the system's own and compares them
(``PopReviveService``). Here a message that is given is a deferred message at once, due in the group's topic when its
time is over, and its acknowledgement settles it: both are records of the log, so a new master goes on with them.

Sources: RocketMQ's ``PopMessageProcessor``, ``AckMessageProcessor``, ``ChangeInvisibleTimeProcessor`` and
``ExtraInfoUtil``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from chaos.node import Env, Malformed
from reference.broker import properties
from reference.broker.deferral import MOST_RETURNS, Deferral
from reference.broker.deferred import as_message
from reference.broker.parts import Refused
from reference.broker.producer_requests import DEAD_PREFIX, RETRY_PREFIX, ProducerBroker, ProducerRequests
from reference.broker.pulls import MAX_PULL_BYTES
from reference.broker.queues import Queue
from reference.broker.records import message_id, reconsumed, source_of
from reference.tier.interface import TierAnswer
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import text, whole

TIMER = "pops"
#: So many messages are given at a time, and so many requests wait for some.
MOST_MESSAGES, MAX_WAITING = 32, 1_000
#: For so long what is given stays invisible, as RocketMQ's ``PopMessageProcessor`` demands.
LEAST_INVISIBLE_MS, MOST_INVISIBLE_MS = 1_000, 300_000
MOST_POLL_MS = 60_000
_NORMAL, _RETRY = "0", "1"
_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pop:
    """A request for messages. ``queue_id``: -1 for any queue; ``deadline_ns``: until when it may wait."""

    source: str
    request: Command
    group: str
    topic: str
    queue_id: int
    count: int
    invisible_ms: int
    deadline_ns: int

    @classmethod
    def read(cls, env: Env, source: str, message: Command) -> Pop:
        """Read a request. Raises :class:`chaos.node.Malformed` and :class:`Refused`."""
        fields = message.fields
        poll_ms = min(whole(fields, "pollTime", 0), MOST_POLL_MS)
        count, invisible_ms = whole(fields, "maxMsgNums"), whole(fields, "invisibleTime")
        if not 1 <= count <= MOST_MESSAGES:
            raise Malformed(f"maxMsgNums must be from 1 to {MOST_MESSAGES}")
        if not LEAST_INVISIBLE_MS <= invisible_ms <= MOST_INVISIBLE_MS:
            raise Malformed(f"invisibleTime must be from {LEAST_INVISIBLE_MS} to {MOST_INVISIBLE_MS} ms")
        if fields.get("order") == "true":
            raise Refused(Response.MESSAGE_ILLEGAL, "to pop in order is not supported")
        return cls(
            source=source,
            request=message,
            group=text(fields, "consumerGroup"),
            topic=text(fields, "topic"),
            queue_id=whole(fields, "queueId", -1, bits=32),
            count=count,
            invisible_ms=invisible_ms,
            deadline_ns=env.mono_ns() + poll_ms * _MS,
        )

    @property
    def again(self) -> str:
        """Return the topic from which what was not acknowledged comes again to this group."""
        return f"{RETRY_PREFIX}{self.group}_{self.topic}"


class PopBroker(ProducerBroker, Protocol):
    """The broker, as those see it who are given messages."""

    def readable_end(self, queue: Queue) -> int:
        """Return the offset after the last record that readers may see."""


class PopRequests:
    """``_given``: up to which offset this master has given messages of a queue to a group, confirmed or not.
    ``_reading``: where the tier is being read for a group."""

    def __init__(self, broker: PopBroker, producer: ProducerRequests, deferral: Deferral) -> None:
        self._broker = broker
        self._producer = producer
        self._deferral = deferral
        self._given: dict[tuple[str, int], int] = {}
        self._reading: set[tuple[str, int]] = set()
        self._waiting: list[Pop] = []
        self._turn = 0

    # Policy

    def next_offset(self, group: str, queue: Queue) -> int:
        """Return the first offset of a queue that the group was not given yet."""
        stored = self._broker.queues.offsets.get(group, {}).get(queue.index, 0)
        return max(stored, self._given.get((group, queue.index), 0), 0 if self._broker.is_tiered else queue.first)

    def check_point(self, env: Env, pop: Pop, data: bytes, handle: str, due_ms: int) -> None:
        """Write that a message is given under this handle, and comes again at this time unless it is acknowledged."""
        record, returned = self._broker.log.decode(data), reconsumed(data)
        dead = returned >= MOST_RETURNS
        values = as_message(properties.read(record.properties))
        values.setdefault(properties.RETRY_TOPIC, record.topic)
        values.setdefault(properties.ORIGIN_ID, message_id(source_of(data), record.position))
        values |= {
            properties.REAL_TOPIC: DEAD_PREFIX + pop.group if dead else pop.again,
            properties.REAL_QUEUE: "0",
            properties.DUE_MS: str(due_ms),
            properties.HANDLE: handle,
        }
        self._deferral.append_deferred(env, data, values, reconsume_times=returned + 1)

    # Requests

    def pop(self, env: Env, source: str, message: Command) -> None:
        """200050: give messages, those that come again first; where there are none, wait for some."""
        self._broker.must_serve()
        self._serve(env, Pop.read(env, source, message))

    def acknowledge(self, env: Env, source: str, message: Command) -> None:
        """200051: a member has done with a message, which does not come again. Too late is a refusal: it may come."""
        self._broker.must_serve()
        key = self._asked_key(message)
        self._producer.must_be_in_sync()
        self._deferral.settle(env, key)
        self._producer.await_effect(env, source, message, self._broker.identity_fields(env))

    def change_time(self, env: Env, source: str, message: Command) -> None:
        """200053: a member wants a message to stay invisible for another while, from now on."""
        self._broker.must_serve()
        invisible_ms = whole(message.fields, "invisibleTime")
        if not LEAST_INVISIBLE_MS <= invisible_ms <= MOST_INVISIBLE_MS:
            raise Malformed(f"invisibleTime must be from {LEAST_INVISIBLE_MS} to {MOST_INVISIBLE_MS} ms")
        key = self._asked_key(message)
        self._producer.must_be_in_sync()
        now_ms = env.wall_ns() // _MS
        self._deferral.put_off(env, key, now_ms + invisible_ms)
        more = {"popTime": str(now_ms), "invisibleTime": str(invisible_ms), "reviveQid": "0"}
        fields = {**more, **self._broker.identity_fields(env)}
        self._producer.await_effect(env, source, message, fields)

    def _asked_key(self, message: Command) -> int:
        """Return the key of the message that a handle means: RocketMQ's ``POP_CK``, whose first word is where the check
        points of all that were given together begin. Raises :class:`Refused` where it waits no more."""
        fields = message.fields
        group, offset = text(fields, "consumerGroup"), whole(fields, "offset")
        first = text(fields, "extraInfo").split(" ")[0]
        if not first.isascii() or not first.isdigit() or len(first) > 18:
            raise Malformed(f"extraInfo is no handle: {first[:80]!r}")
        key = self._deferral.key_of(_handle(int(first), group, offset))
        if key is None:
            raise Refused(Response.INVALID_PARAMETER, "this message waits for no acknowledgement of the group any more")
        return key

    # Giving

    def _serve(self, env: Env, pop: Pop) -> None:
        for queue in self._queues(pop):
            begin = self.next_offset(pop.group, queue)
            end = min(self._broker.readable_end(queue), begin + pop.count)
            if begin < end and (pop.group, queue.index) not in self._reading:
                self._read(env, pop, queue, begin, end)
                return
        if pop.deadline_ns > env.mono_ns() and len(self._waiting) < MAX_WAITING:
            self._waiting.append(pop)
            env.set_timer(TIMER, min(one.deadline_ns for one in self._waiting) - env.mono_ns())
        else:
            fields = self._broker.identity_fields(env)
            env.send(pop.source, pop.request.reply(Response.POLLING_TIMEOUT, fields, remark="no message"))

    def _queues(self, pop: Pop) -> list[Queue]:
        """Return the queues that are looked through, in this order: what comes again, then all of the topic in turn."""
        known, found = self._broker.queues, []
        again = known.queue(pop.again, 0)
        if again is not None and known.topics[pop.again].is_served:
            found.append(again)
        if pop.queue_id >= 0:
            return [*found, self._broker.find_queue(pop.topic, pop.queue_id)]
        first = self._broker.find_queue(pop.topic, 0).index
        count = known.topics[pop.topic].queues
        self._turn += 1
        return [*found, *(known.by_index[first + (self._turn + number) % count] for number in range(count))]

    def _read(self, env: Env, pop: Pop, queue: Queue, begin: int, end: int) -> None:
        log = self._broker.log
        if begin < queue.first:
            self._read_tier(env, pop, queue, begin)
            return
        found: list[bytes] = []
        size = 0
        for at in range(begin - queue.first, end - queue.first):
            size += queue.sizes[at]
            if found and size > MAX_PULL_BYTES:
                break
            found.append(log.read_record(env, queue.positions[at], queue.sizes[at]))
        self._give(env, pop, queue, begin, found)

    def _read_tier(self, env: Env, pop: Pop, queue: Queue, begin: int) -> None:
        """Read what the log holds no more. Meanwhile no member of the group is given anything of the queue."""
        place, epoch = (pop.group, queue.index), self._broker.epoch
        self._reading.add(place)

        def then(env: Env, answer: TierAnswer) -> None:
            self._reading.discard(place)
            if not self._broker.is_master or self._broker.epoch != epoch:
                env.send(pop.source, pop.request.reply(Response.SERVICE_NOT_AVAILABLE, remark="the role changed"))
            elif answer.records:
                self._attempt(
                    env, pop, lambda: self._give(env, pop, queue, begin, [one.data for one in answer.records])
                )
            elif answer.too_small and answer.start > begin:
                self._given[place] = answer.start
                self._attempt(env, pop, lambda: self._serve(env, pop))
            else:
                env.send(pop.source, pop.request.reply(Response.POLLING_TIMEOUT, remark="the tier has no answer now"))

        limits = {"max_bytes": MAX_PULL_BYTES, "max_count": pop.count}
        self._broker.tier.read(env, queue.index, begin, then=then, **limits)

    def _give(self, env: Env, pop: Pop, queue: Queue, begin: int, found: Sequence[bytes]) -> None:
        """Give these messages of a queue, which begin at this offset."""
        broker = self._broker
        if broker.find_queue(queue.topic, queue.queue_id) is not queue:
            raise Refused(Response.TOPIC_NOT_EXIST, f"topic {queue.topic} was deleted meanwhile")
        self._producer.must_be_in_sync()
        self._producer.must_be_readable(env)
        now_ms, first, end = env.wall_ns() // _MS, broker.log.end, begin + len(found)
        for offset, data in enumerate(found, begin):
            self.check_point(env, pop, data, _handle(first, pop.group, offset), now_ms + pop.invisible_ms)
        self._given[pop.group, queue.index] = end
        self._producer.append_offset(env, pop.group, queue, end)
        flag = _RETRY if queue.topic == pop.again else _NORMAL
        offsets = ",".join(str(offset) for offset in range(begin, end))
        fields = {
            "popTime": str(now_ms),
            "invisibleTime": str(pop.invisible_ms),
            "reviveQid": "0",
            "restNum": str(broker.readable_end(queue) - end),
            "startOffsetInfo": f"{flag} {queue.queue_id} {first}",
            "msgOffsetInfo": f"{flag} {queue.queue_id} {offsets}",
            "orderCountInfo": "",
            **broker.identity_fields(env),
        }
        self._producer.await_effect(env, pop.source, pop.request, fields, b"".join(found))

    # Waiting

    def wake(self, env: Env) -> None:
        """Queues may have grown."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for pop in waiting:
                self._attempt(env, pop, partial(self._serve, env, pop))

    def reset(self, group: str, queue: int) -> None:
        """The group's offset was set: it is given messages from there on."""
        self._given.pop((group, queue), None)

    def timer(self, env: Env) -> None:
        self.wake(env)

    @staticmethod
    def _attempt(env: Env, pop: Pop, serve: Callable[[], None]) -> None:
        try:
            serve()
        except Refused as refusal:
            env.send(pop.source, pop.request.reply(refusal.code, remark=str(refusal)))

    def abandon(self, env: Env) -> None:
        """The role is lost: those that wait ask another broker."""
        self._given.clear()
        self._reading.clear()
        waiting, self._waiting = self._waiting, []
        for pop in waiting:
            env.send(pop.source, pop.request.reply(Response.SERVICE_NOT_AVAILABLE, remark="the role changed"))

    def closed(self, peer: str) -> None:
        self._waiting = [pop for pop in self._waiting if pop.source != peer]


def _handle(first: int, group: str, offset: int) -> str:
    """Return what identifies the messages that were given: where the check points of those that were given together
    begin, to whom, and the offset."""
    return f"{first} {offset} {group}"
