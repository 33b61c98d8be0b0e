"""What the master does with deferred messages: it puts those that are due into their queues, asks producers how their
transactions end, takes their decisions, and takes back what consumers could not work on.

Sources: RocketMQ's ``EndTransactionProcessor``, ``AbstractTransactionalMessageCheckListener``,
``ScheduleMessageService``, ``TimerMessageStore`` and ``AbstractSendMessageProcessor.consumerSendMsgBack``.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, Protocol

from chaos.node import DiskFull, Env
from reference.broker import properties
from reference.broker.deferred import Deferred, as_copy, as_message
from reference.broker.parts import Refused, Service
from reference.broker.producer_requests import DEAD_PREFIX, RETRY_PREFIX, ProducerRequests
from reference.broker.queues import Effect, Queue
from reference.broker.records import (
    DEFERRED_RECORDS,
    MAX_NAMED_BYTES,
    body_hash,
    message_id,
    message_number,
    moved,
    reconsumed,
    source_of,
)
from reference.broker.sends import LEVELS_S
from reference.broker.subscriptions import Subscriptions
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import optional_text, text, whole

TIMER = "deferred"
#: So many messages are put into their queues in one step, and so many transactions are asked for.
AT_ONCE = 100
#: Clocks are looked at this often at least, since they may be set: what is due is due by the wall clock.
LOOK_MS = 1000
#: When something stood in the way, it is tried again after this.
RETRY_MS = 200
#: The ends of a transaction, in a message's system flags.
COMMIT, ROLLBACK = 8, 12
#: How often a message may come back before it goes to its group's dead letters.
MOST_RETURNS = 16
#: The level of delay of a message that comes back for the first time.
FIRST_LEVEL = 3
_MS = 1_000_000


class DeferringBroker(Service, Protocol):
    """The broker, as its deferred messages see it."""

    @property
    def name(self) -> str: ...

    @property
    def is_master(self) -> bool:
        """Master, and ready to serve."""

    def next_offset(self, queue: Queue) -> int:
        """Return the offset of the next record of a queue."""


class Deferral:
    """``_moving``: keys of messages whose last record is in the log and not confirmed yet. ``_alarms``: (when, key), a
    heap of what is to be done with each: a step looks at what is due, not at all that waits."""

    def __init__(
        self, broker: DeferringBroker, producer: ProducerRequests, clients: Subscriptions, options: Mapping[str, Any]
    ) -> None:
        self._broker = broker
        self._producer = producer
        self._clients = clients
        self._first_check_ms = int(options.get("transaction_timeout_ms", 6_000))
        self._check_ms = int(options.get("transaction_check_ms", 30_000))
        self._keep_ms = int(options.get("transaction_keep_ms", 15 * 30_000))
        self._retain_bytes = int(options.get("retain_bytes", 0))
        self._moving: set[int] = set()
        self._alarms: list[tuple[int, int]] = []
        self._asked = 0

    # Policy

    def come_ms(self, entry: Deferred) -> int:
        """Return when a message that waits for its time comes to its queue (ms since 1970)."""
        return entry.due_ms

    def may_end(self, entry: Deferred, group: str) -> bool:
        """Return whether producers of this group may end the transaction of a half message."""
        return entry.is_half and entry.group == group

    def returns_after_ms(self, level: int, returned: int) -> int:
        """Return after how long a message comes back that was given ``returned`` times: at its level of delay, or (0)
        the later the more often it came."""
        return LEVELS_S[min(level or FIRST_LEVEL + returned, len(LEVELS_S)) - 1] * 1000

    def unknown_end(self, env: Env, entry: Deferred) -> None:
        """The producer does not know yet how this transaction ends: it is asked again later."""

    # The master's life

    def promoted(self, env: Env) -> None:
        """Take over what waits: this broker is master, and knows all that is confirmed."""
        self._moving.clear()
        now_ms = env.wall_ns() // _MS
        self._alarms = [(self._alarm_ms(entry, now_ms), entry.key) for entry in self._waiting()]
        heapq.heapify(self._alarms)
        self._set_timer(env)

    def demoted(self, env: Env) -> None:
        self._moving.clear()
        self._alarms.clear()
        env.cancel_timer(TIMER)

    def took_effect(self, env: Env, effect: Effect) -> None:
        """Go on with a record that is confirmed now: a deferred message, or the end of one."""
        if effect.deferred is not None:
            heapq.heappush(self._alarms, (self._alarm_ms(effect.deferred, env.wall_ns() // _MS), effect.deferred.key))
            self._moving.discard(effect.deferred.key)
            if self._alarms[0][1] == effect.deferred.key:
                self._set_timer(env)
        elif effect.settles or effect.system == "settled":
            self._moving.discard(effect.settles or effect.value["key"])

    def _waiting(self) -> list[Deferred]:
        return self._broker.queues.deferred.waiting()

    def _alarm_ms(self, entry: Deferred, now_ms: int) -> int:
        """Return when something is to be done with it: it comes, or its producer is asked for the first time."""
        return entry.stored_ms + self._first_check_ms if entry.is_half else self.come_ms(entry)

    def _set_timer(self, env: Env, least_ms: int = 0) -> None:
        if self._alarms:
            wait_ms = self._alarms[0][0] - env.wall_ns() // _MS
            env.set_timer(TIMER, max(least_ms, min(wait_ms, LOOK_MS), 0) * _MS)

    def timer(self, env: Env) -> None:
        """Do what is due, as far as one step goes."""
        if not self._broker.is_master:
            return
        now_ms, least_ms = env.wall_ns() // _MS, 0
        for _ in range(AT_ONCE):
            if not self._alarms or self._alarms[0][0] > now_ms:
                break
            _, key = heapq.heappop(self._alarms)
            entry = self._broker.queues.deferred.get(key)
            if entry is None or key in self._moving:
                continue
            try:
                again_ms = self._act(env, entry, now_ms)
            except (Refused, DiskFull):
                again_ms = least_ms = RETRY_MS
            if again_ms:
                heapq.heappush(self._alarms, (now_ms + again_ms, key))
        self._set_timer(env, least_ms)

    def _act(self, env: Env, entry: Deferred, now_ms: int) -> int:
        """Do what is due with a message. Return after how many ms there is something to do again, 0 for never."""
        if not entry.is_half:
            wait_ms = self.come_ms(entry) - now_ms  # it may have been put off
            if wait_ms <= 0:
                self.deliver(env, entry)
            return max(0, wait_ms)
        if now_ms >= entry.stored_ms + self._keep_ms:
            self._give_up(env, entry)
            return 0
        self._ask(env, entry)
        return self._check_ms

    # Messages that come to their queue

    def deliver(self, env: Env, entry: Deferred) -> None:
        """Put a message into its queue, which settles it as soon as that is confirmed. One whose topic is gone, or that
        comes back and was of such a topic, never comes. Raises :class:`Refused` and :class:`DiskFull`: it waits on."""
        broker, producer = self._broker, self._producer
        producer.must_be_in_sync()
        data = broker.log.read_record(env, entry.position, entry.size)
        record = broker.log.decode(data)
        values = properties.read(record.properties)
        topic = values.get(properties.REAL_TOPIC, "")
        sources = topic, values.get(properties.RETRY_TOPIC, "")
        if any(broker.queues.is_deleted_since(name, entry.key) for name in sources):
            self.settle(env, entry.key)
            return
        if topic.startswith((RETRY_PREFIX, DEAD_PREFIX)):
            producer.make_topic(env, topic)
        queue = broker.queues.queue(topic, int(values.get(properties.REAL_QUEUE, "0")))
        if queue is None or broker.queues.topics[topic].is_ending:
            raise Refused(Response.TOPIC_NOT_EXIST, f"no queue of topic {topic}")
        made = moved(
            data,
            topic=topic,
            queue_id=queue.queue_id,
            offset=broker.next_offset(queue),
            position=broker.log.end,
            store_ms=env.wall_ns() // _MS,
            properties=properties.write(self.delivered_properties(entry, values)),
            prepared=entry.key,
            sys_flag=COMMIT if entry.is_half else 0,
        )
        producer.append(env, made)
        number = message_number(record.properties)
        producer.put(env, queue, made, number, body_hash(record.body), entry.key)
        self._moving.add(entry.key)
        producer.written(env)

    def delivered_properties(self, entry: Deferred, values: dict[str, str]) -> dict[str, str]:
        """Return the properties that a message has in its queue."""
        return as_message(values)

    # Transactions

    def end(self, env: Env, source: str, message: Command) -> None:
        """37: a producer says how the transaction of a half message ends. One that has ended is answered with 1: it can
        be decided once."""
        fields = message.fields
        self._broker.must_serve()
        key, place = whole(fields, "commitLogOffset"), whole(fields, "tranStateTableOffset")
        group, decision = text(fields, "producerGroup"), whole(fields, "commitOrRollback", bits=32)
        if decision not in (0, COMMIT, ROLLBACK):
            raise Refused(Response.INVALID_PARAMETER, f"commitOrRollback must be 0, {COMMIT} or {ROLLBACK}")
        entry = self._broker.queues.deferred.get(key)
        if entry is None or place != key or not self.may_end(entry, group):
            raise Refused(Response.SYSTEM_ERROR, f"no message of group {group} waits at position {key}")
        if key in self._moving:
            raise Refused(Response.SYSTEM_ERROR, f"the transaction at position {key} is being ended already")
        if decision == 0:
            self.unknown_end(env, entry)
            if not message.is_oneway:
                env.send(source, message.reply(fields=self._broker.identity_fields(env)))
            return
        if decision == COMMIT:
            self.deliver(env, entry)
        else:
            self.roll_back(env, entry)
        self._producer.await_effect(env, source, message, self._broker.identity_fields(env))

    def roll_back(self, env: Env, entry: Deferred) -> None:
        """Have a half message never come."""
        self._producer.must_be_in_sync()
        self.settle(env, entry.key)

    def _give_up(self, env: Env, entry: Deferred) -> None:
        """A transaction stayed undecided for so long that it never will be: RocketMQ puts its message aside after 15
        questions (``transactionCheckMax``)."""
        self.roll_back(env, entry)

    def _ask(self, env: Env, entry: Deferred) -> None:
        """39: ask one of the group's producers how the transaction of a half message ends."""
        producers = self._clients.producers_of(entry.group)
        if not producers:
            return
        self._asked += 1
        broker = self._broker
        data = broker.log.read_record(env, entry.position, entry.size)
        values = properties.read(broker.log.decode(data).properties)
        _, here = env.endpoints(producers[self._asked % len(producers)])
        unique = values.get(properties.KEY, "")
        fields = {
            "commitLogOffset": str(entry.key),
            "tranStateTableOffset": str(entry.key),
            "msgId": unique,
            "transactionId": unique,
            "offsetMsgId": message_id(here, entry.key),
            "topic": values.get(properties.REAL_TOPIC, ""),
        }
        body = moved(
            data,
            topic=values.get(properties.REAL_TOPIC, ""),
            queue_id=int(values.get(properties.REAL_QUEUE, "0")),
            offset=entry.key,
            position=entry.key,
            store_ms=entry.stored_ms,
            properties=properties.write({**as_message(values), properties.HALF: "true"}),
            prepared=0,
            sys_flag=0,
        )
        asked = Command(code=Request.CHECK_TRANSACTION_STATE, flags=ONEWAY, fields=fields, body=body)
        env.send(producers[self._asked % len(producers)], asked)

    # Messages that come back

    def send_back(self, env: Env, source: str, message: Command) -> None:
        """36: a consumer could not work on a message, and its group is to be given it again later, from its own topic
        for that; one that has come back too often goes to the group's dead letters."""
        broker, producer, fields = self._broker, self._producer, message.fields
        broker.must_serve()
        group, position = text(fields, "group"), whole(fields, "offset")
        level, most = (
            whole(fields, "delayLevel", 0, bits=32),
            whole(fields, "maxReconsumeTimes", MOST_RETURNS, bits=32),
        )
        found = self._find(position, optional_text(fields, "originTopic"), RETRY_PREFIX + group)
        if found is None:
            raise Refused(Response.SYSTEM_ERROR, f"no message stands at position {position} of the log any more")
        producer.must_be_in_sync()
        producer.must_be_readable(env)
        data = broker.log.read_record(env, position, found[1])
        record, returned = broker.log.decode(data), reconsumed(data)
        dead = level < 0 or returned >= most
        topic = (DEAD_PREFIX if dead else RETRY_PREFIX) + group
        producer.make_topic(env, topic)
        now_ms = env.wall_ns() // _MS
        due_ms = now_ms if dead else now_ms + self.returns_after_ms(level, returned)
        values = as_message(properties.read(record.properties))
        values.setdefault(properties.RETRY_TOPIC, record.topic)
        values.setdefault(properties.ORIGIN_ID, message_id(source_of(data), position))
        values |= {properties.REAL_TOPIC: topic, properties.REAL_QUEUE: "0", properties.DUE_MS: str(due_ms)}
        self.append_deferred(env, data, values, reconsume_times=returned + 1)
        producer.await_effect(env, source, message, broker.identity_fields(env))

    def _find(self, position: int, *topics: str) -> tuple[Queue, int] | None:
        """Return the queue of one of these topics in which a confirmed message stands at this position of the log, and
        its size."""
        queues = self._broker.queues
        for name in topics:
            topic = queues.topics.get(name)
            for queue in queues.by_index[topic.first_index : topic.first_index + topic.queues] if topic else ():
                at = bisect_left(queue.positions, position)
                if at < queue.confirmed - queue.first and queue.positions[at] == position:
                    return queue, queue.sizes[at]
        return None

    def append_deferred(
        self, env: Env, data: bytes, values: dict[str, str], prepared: int = 0, reconsume_times: int | None = None
    ) -> None:
        """Append a message of the log as one that waits, with these properties. Raises :class:`Refused`."""
        named = properties.write(values)
        if len(named) > MAX_NAMED_BYTES:
            raise Refused(Response.MESSAGE_ILLEGAL, "the message's properties are too long for one that comes later")
        made = moved(
            data,
            topic=DEFERRED_RECORDS,
            queue_id=0,
            offset=0,
            position=self._broker.log.end,
            store_ms=env.wall_ns() // _MS,
            properties=named,
            prepared=prepared,
            reconsume_times=reconsume_times,
        )
        self._producer.append_deferred(env, made)

    # Messages that members were given

    def key_of(self, handle: str) -> int | None:
        """Return the key of a message that waits under this handle; None where it has come again, or is about to."""
        entry = self._broker.queues.deferred.under(handle)
        return None if entry is None or entry.key in self._moving else entry.key

    def settle(self, env: Env, key: int) -> None:
        """Have a message that waits never come."""
        self._moving.add(key)
        self._producer.settle(env, key)

    def put_off(self, env: Env, key: int, due_ms: int) -> None:
        """Have a message that waits come at another time. Raises :class:`Refused`."""
        entry = self._broker.queues.deferred.get(key)
        assert entry is not None
        data = self._broker.log.read_record(env, entry.position, entry.size)
        values = as_copy(properties.read(self._broker.log.decode(data).properties), entry)
        self.append_deferred(env, data, {**values, properties.DUE_MS: str(due_ms)}, prepared=key)
        self._moving.add(key)

    # Retention

    def make_room(self, env: Env) -> None:
        """Write the messages that wait in what the log would forget again at its end, some at a time. Where what waits
        takes a great part of what is kept, they stay where they are, and so does the log."""
        broker = self._broker
        if not self._retain_bytes or not broker.is_master:
            return
        waiting = self._waiting()
        if sum(entry.size for entry in waiting) > self._retain_bytes // 2:
            return
        bound = broker.log.end - self._retain_bytes
        for entry in waiting[:AT_ONCE]:
            if entry.position >= bound:
                break
            if entry.key in self._moving:
                continue
            data = broker.log.read_record(env, entry.position, entry.size)
            self._moving.add(entry.key)
            values = as_copy(properties.read(broker.log.decode(data).properties), entry)
            try:
                self.append_deferred(env, data, values, prepared=entry.key)
            except Refused:
                self._moving.discard(entry.key)
                return
