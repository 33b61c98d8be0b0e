"""Planted bugs of messages that come later, of batches, and of groups: members, locks, and what they send back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.node import Env
from reference.broker import properties
from reference.broker.consumer_requests import ConsumerBroker, ConsumerRequests
from reference.broker.deferral import Deferral
from reference.broker.deferred import Deferred
from reference.broker.lock_requests import LockRequests
from reference.broker.parts import Refused
from reference.broker.popping import Pop, PopRequests
from reference.broker.producer_requests import DEAD_PREFIX, RETRY_PREFIX, ProducerRequests
from reference.broker.queues import Queue, Queues
from reference.broker.retention import Retention
from reference.broker.sends import SendRequest
from reference.mutants._planted import Planted
from reference.wire.codes import Response
from reference.wire.command import Command

SCENARIO = "deliveries"
_MS = 1_000_000


class HalfAtOnce(ProducerRequests):
    """A half message goes into its queue like any other; how its transaction ends changes nothing."""

    def _defer(self, env: Env, source: str, asked: SendRequest, due_ms: int) -> dict[str, str]:
        if due_ms >= 0:
            return super()._defer(env, source, asked, due_ms)
        queue = self._broker.find_queue(asked.topic, asked.queue_id)
        return self._put(env, source, queue, [asked])


class NeverCopied(Deferral):
    """What waits is never written again."""

    def make_room(self, env: Env) -> None:
        pass


class DelaysOfThisTerm(NeverCopied):
    """A new master waits for the messages that it was sent itself."""

    def promoted(self, env: Env) -> None:
        super().promoted(env)
        waiting = self._broker.queues.deferred
        self._alarms = [(at, key) for at, key in self._alarms if (entry := waiting.get(key)) and entry.is_half]


class HalvesOfThisTerm(NeverCopied):
    """A new master asks for the transactions that it was sent itself."""

    def promoted(self, env: Env) -> None:
        super().promoted(env)
        waiting = self._broker.queues.deferred
        self._alarms = [(at, key) for at, key in self._alarms if (entry := waiting.get(key)) and not entry.is_half]


class NobodyIsAsked(Deferral):
    """A transaction whose end was not heard stays open."""

    def _ask(self, env: Env, entry: Deferred) -> None:
        pass


class CommitsWhateverIsSaid(Deferral):
    """A message of a transaction comes once its producer has said anything at all."""

    def roll_back(self, env: Env, entry: Deferred) -> None:
        self.deliver(env, entry)


class RollsBackWithoutProducers(Deferral):
    """Where no producer of the group is connected, the transaction counts as given up."""

    def _ask(self, env: Env, entry: Deferred) -> None:
        if self._clients.producers_of(entry.group):
            super()._ask(env, entry)
        else:
            self._give_up(env, entry)


class SecondsRoundedDown(Deferral):
    """Delays are kept in whole seconds, by a wheel that begins a second early."""

    def come_ms(self, entry: Deferred) -> int:
        return entry.due_ms // 1000 * 1000 - 1000


class ForgottenWithTheLog(Retention):
    """Files go though messages in them wait to come to their queue ..."""

    def first_waiting(self) -> int:
        return self._broker.log.end


class ForgetsWithTheLog(Queues):
    """... and are forgotten with them."""

    def drop_before(self, position: int) -> None:
        super().drop_before(position)
        for entry in self.deferred.waiting():
            if entry.position < position:
                self.deferred.settle(entry.key)


class FirstQueueForAll(Deferral):
    """Messages that waited all come to the first queue of their topic."""

    def deliver(self, env: Env, entry: Deferred) -> None:
        log = self._broker.log
        read, first = log.read_record, properties.REAL_QUEUE
        data = read(env, entry.position, entry.size)
        values = properties.read(log.decode(data).properties)
        if values.get(first, "0") != "0" and not values.get(properties.REAL_TOPIC, "").startswith("%"):
            self._producer.settle(env, entry.key)
            self._moving.add(entry.key)
            return self._elsewhere(env, data, values)
        return super().deliver(env, entry)

    def _elsewhere(self, env: Env, data: bytes, values: dict[str, str]) -> None:
        self.append_deferred(env, data, {**values, properties.REAL_QUEUE: "0", properties.DUE_MS: "1"})


class PropertiesLost(Deferral):
    """A message comes without its properties, and so without its key."""

    def delivered_properties(self, entry: Deferred, values: dict[str, str]) -> dict[str, str]:
        return {}


class BatchPartlyStored(ProducerRequests):
    """Of a batch the first message is stored, and all are acknowledged."""

    def _put(self, env: Env, source: str, queue: Queue, parts: Sequence[SendRequest]) -> dict[str, str]:
        return super()._put(env, source, queue, parts[:1])


class BatchNamesItsEnd(ProducerRequests):
    """The answer to a batch names the offset of its last message; its producer counts from there."""

    def _put(self, env: Env, source: str, queue: Queue, parts: Sequence[SendRequest]) -> dict[str, str]:
        answer = super()._put(env, source, queue, parts)
        return {**answer, "queueOffset": str(int(answer["queueOffset"]) + len(parts) - 1)}


class LocksInMemory(LockRequests):
    """Locks live in the master's memory, and the next master knows none of them."""

    def _write(self, env: Env, group: str, queues: Sequence[Queue], client: str, until_ms: int) -> None:
        for queue in queues:
            self._changing[group, queue.index] = client, until_ms, 1 << 62


class LocksNotRenewed(LockRequests):
    """A lock ends so long after it was given first, though its holder renews it."""

    def __init__(self, broker: Any, producer: Any, options: Mapping[str, Any]) -> None:
        super().__init__(broker, producer, options)
        self._given: dict[tuple[str, int], tuple[str, int]] = {}

    def holder(self, group: str, queue: int, now_ms: int) -> str:
        client = super().holder(group, queue, now_ms)
        first, since_ms = self._given.get((group, queue), ("", 0))
        if client != first:
            self._given[group, queue] = client, now_ms
            return client
        return client if now_ms < since_ms + self._lock_ms else ""


class LocksForAll(LockRequests):
    """Who asks for a lock gets it."""

    def holder(self, group: str, queue: int, now_ms: int) -> str:
        return ""


class ReturnsDropped(Deferral):
    """A message that comes back is taken, and nothing is written of it."""

    def append_deferred(
        self, env: Env, data: bytes, values: dict[str, str], prepared: int = 0, reconsume_times: int | None = None
    ) -> None:
        if not values.get(properties.REAL_TOPIC, "").startswith(RETRY_PREFIX) or prepared:
            super().append_deferred(env, data, values, prepared, reconsume_times)


class AllReturnsAreDead(Deferral):
    """A message that comes back goes to the dead letters at the first time."""

    def append_deferred(
        self, env: Env, data: bytes, values: dict[str, str], prepared: int = 0, reconsume_times: int | None = None
    ) -> None:
        topic = values.get(properties.REAL_TOPIC, "")
        if topic.startswith(RETRY_PREFIX):
            values = {**values, properties.REAL_TOPIC: DEAD_PREFIX + topic.removeprefix(RETRY_PREFIX)}
        super().append_deferred(env, data, values, prepared, reconsume_times)


class GhostMembers(ConsumerRequests):
    """A member whose connection has ended goes on to count, and its queues have no reader."""

    def closed(self, env: Env, peer: str) -> None:
        self._held = [pull for pull in self._held if pull.source != peer]


class OffsetsResetAtRebalance(ConsumerRequests):
    """For a second after its members have changed, a group has no offsets."""

    def __init__(self, broker: ConsumerBroker) -> None:
        super().__init__(broker)
        self._members: dict[str, tuple[tuple[str, ...], int]] = {}

    def committed(self, env: Env, source: str, message: Command) -> None:
        group = message.fields.get("consumerGroup", "")
        now = tuple(sorted(client for client, groups in self.clients._clients.values() if group in groups))
        before, since_ns = self._members.get(group, (now, 0))
        if now != before:
            since_ns = env.mono_ns()
        self._members[group] = now, since_ns
        if since_ns and env.mono_ns() < since_ns + 1_000_000_000:
            self._asked_queue(message)
            env.send(source, message.reply(fields={"offset": "0", **self._broker.identity_fields(env)}))
        else:
            super().committed(env, source, message)


class NewRecordsAtOnce(ProducerRequests):
    """A new version writes its records as soon as its own node runs it."""

    def may_write(self, version: int) -> bool:
        return True


class AnybodyEnds(Deferral):
    """Producers of any group may end a transaction."""

    def may_end(self, entry: Deferred, group: str) -> bool:
        return entry.is_half


class AckTwice(PopRequests):
    """To acknowledge what waits no more is answered as if it had been done."""

    def acknowledge(self, env: Env, source: str, message: Command) -> None:
        try:
            super().acknowledge(env, source, message)
        except Refused as refusal:
            if refusal.code != Response.INVALID_PARAMETER:
                raise
            env.send(source, message.reply(fields=self._broker.identity_fields(env)))


class CheckPointsLost(PopRequests):
    """Nothing is written of what members are given: what they don't acknowledge is gone."""

    def check_point(self, env: Env, pop: Pop, data: bytes, handle: str, due_ms: int) -> None:
        pass


class InvisibleForEver(PopRequests):
    """What is not acknowledged stays invisible."""

    def check_point(self, env: Env, pop: Pop, data: bytes, handle: str, due_ms: int) -> None:
        super().check_point(env, pop, data, handle, due_ms + 3_600_000)


class AcksAll(PopRequests):
    """An acknowledgement is taken for all messages that were given together."""

    def acknowledge(self, env: Env, source: str, message: Command) -> None:
        first = message.fields.get("extraInfo", "").split(" ")[0]
        super().acknowledge(env, source, message)
        for entry in self._broker.queues.deferred.waiting():
            if entry.handle.startswith(f"{first} ") and self._deferral.key_of(entry.handle) is not None:
                self._deferral.settle(env, entry.key)


class GivenFromTheEnd(PopRequests):
    """A group that was given nothing of a queue begins where it ends now."""

    def next_offset(self, group: str, queue: Queue) -> int:
        known = queue.index in self._broker.queues.offsets.get(group, {}) or (group, queue.index) in self._given
        if not known and not queue.topic.startswith("%"):
            self._given[group, queue.index] = self._broker.readable_end(queue)
        return super().next_offset(group, queue)


MUTANTS = (
    Planted(
        name="half-message-visible",
        law="deliveries",
        stands_for="a broker that knows no transactions: consumers are given what is rolled back later",
        parts={"broker": {"producer_requests": HalfAtOnce}},
        scenario=SCENARIO,
    ),
    Planted(
        name="delay-forgotten-at-switch",
        law="deliveries",
        stands_for="offsets of delay levels that a slave does not load when it becomes the master",
        parts={"broker": {"deferral": DelaysOfThisTerm}},
        scenario=SCENARIO,
    ),
    Planted(
        name="half-message-forgotten",
        law="deliveries",
        stands_for="check-backs that only the master of the half message sends: after a switch no producer is asked",
        parts={"broker": {"deferral": HalvesOfThisTerm}},
        scenario=SCENARIO,
    ),
    Planted(
        name="check-back-lost",
        law="deliveries",
        stands_for="a transaction whose end was not heard stays open for ever, since no broker asks its producer",
        parts={"broker": {"deferral": NobodyIsAsked}},
        scenario=SCENARIO,
    ),
    Planted(
        name="rollback-commits",
        law="deliveries",
        stands_for="an end of a transaction whose flag is compared with a mask: rollback (12) has the bit of commit",
        parts={"broker": {"deferral": CommitsWhateverIsSaid}},
        scenario=SCENARIO,
    ),
    Planted(
        name="transaction-given-up-early",
        law="deliveries",
        stands_for="a check-back while no producer is connected, as right after a switch, counts as a rollback",
        parts={"broker": {"deferral": RollsBackWithoutProducers}},
        scenario=SCENARIO,
    ),
    Planted(
        name="delay-in-whole-seconds",
        law="deliveries",
        stands_for="RocketMQ's timer rounds down to timerPrecisionMs: a message comes before its time",
        parts={"broker": {"deferral": SecondsRoundedDown}},
        scenario=SCENARIO,
    ),
    Planted(
        name="waiting-messages-deleted",
        law="deliveries",
        stands_for="commit log files that expire by time or size while the timer still points into them",
        parts={"broker": {"retention": ForgottenWithTheLog, "queues": ForgetsWithTheLog, "deferral": NeverCopied}},
        scenario=SCENARIO,
    ),
    Planted(
        name="waiting-message-to-first-queue",
        law="durability",
        stands_for="the queue of a message that waits is not kept with it (REAL_QID): it comes to another one",
        parts={"broker": {"deferral": FirstQueueForAll}},
        scenario=SCENARIO,
    ),
    Planted(
        name="waiting-message-loses-properties",
        law="durability",
        stands_for="properties that are not copied when a message is stored again: its key and tags are gone",
        parts={"broker": {"deferral": PropertiesLost}},
        scenario=SCENARIO,
    ),
    Planted(
        name="batch-partly-stored",
        law="durability",
        stands_for="a batch is answered when its first message is stored",
        parts={"broker": {"producer_requests": BatchPartlyStored}},
        scenario=SCENARIO,
    ),
    Planted(
        name="batch-names-its-end",
        law="durability",
        stands_for="an offset of a batch that one side takes for its first message's and the other for its last one's",
        parts={"broker": {"producer_requests": BatchNamesItsEnd}},
        scenario=SCENARIO,
    ),
    Planted(
        name="locks-in-memory",
        law="consumers",
        stands_for="RocketMQ's RebalanceLockManager: after a switch of masters a queue has two orderly readers",
        parts={"broker": {"lock_requests": LocksInMemory}},
        scenario=SCENARIO,
    ),
    Planted(
        name="lock-not-renewed",
        law="consumers",
        stands_for="a lease whose renewal is answered and changes nothing",
        parts={"broker": {"lock_requests": LocksNotRenewed}},
        scenario=SCENARIO,
        seed=3,
    ),
    Planted(
        name="locks-for-all",
        law="consumers",
        stands_for="members that are identified by a word that all of a host share: each holds every lock",
        parts={"broker": {"lock_requests": LocksForAll}},
        scenario=SCENARIO,
    ),
    Planted(
        name="returned-message-dropped",
        law="deliveries",
        stands_for="a message that is sent back is acknowledged in its queue and stored nowhere",
        parts={"broker": {"deferral": ReturnsDropped}},
        scenario=SCENARIO,
    ),
    Planted(
        name="returned-message-dead",
        law="deliveries",
        stands_for="a count of returns that begins at its end: the first return goes to the dead letters",
        parts={"broker": {"deferral": AllReturnsAreDead}},
        scenario=SCENARIO,
    ),
    Planted(
        name="anybody-ends-transactions",
        law="answers",
        stands_for="an end of a transaction that is found by its position alone: another group's producer decides it",
        parts={"broker": {"deferral": AnybodyEnds}},
        scenario="conformance",
    ),
    Planted(
        name="ack-of-nothing",
        law="answers",
        stands_for="a late acknowledgement that is answered with success, though the message comes again",
        parts={"broker": {"pop_requests": AckTwice}},
        scenario="conformance",
    ),
    Planted(
        name="new-records-at-once",
        law="availability",
        stands_for="a rolling upgrade whose first node writes what the others can't read: they stop",
        parts={"broker": {"producer_requests": NewRecordsAtOnce}},
        scenario="mixed_versions",
    ),
    Planted(
        name="check-points-lost",
        law="deliveries",
        stands_for="pop check points in a buffer of the broker's that ends with it: what was given never comes again",
        parts={"broker": {"pop_requests": CheckPointsLost}},
        scenario=SCENARIO,
    ),
    Planted(
        name="invisible-for-ever",
        law="deliveries",
        stands_for="a revive offset that moves on, past what was never acknowledged",
        parts={"broker": {"pop_requests": InvisibleForEver}},
        scenario=SCENARIO,
    ),
    Planted(
        name="one-ack-for-all",
        law="deliveries",
        stands_for="a bit map of acknowledgements whose bits are set together",
        parts={"broker": {"pop_requests": AcksAll}},
        scenario=SCENARIO,
    ),
    Planted(
        name="pop-begins-at-the-end",
        law="deliveries",
        stands_for="a new group that begins at the end of each queue without being asked to (initMode)",
        parts={"broker": {"pop_requests": GivenFromTheEnd}},
        scenario=SCENARIO,
    ),
    Planted(
        name="ghost-members",
        law="deliveries",
        stands_for="a member that crashed stays in the list of its group, and its queues are not read",
        parts={"broker": {"consumer_requests": GhostMembers}},
        scenario=SCENARIO,
    ),
    Planted(
        name="offsets-reset-at-rebalance",
        law="consumers",
        stands_for="a rebalance that overtakes the commit of the member before: the group begins again",
        parts={"broker": {"consumer_requests": OffsetsResetAtRebalance}},
        scenario=SCENARIO,
    ),
)
