"""Planted bugs of order and of consumer offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chaos.node import Env
from reference.broker.commitlog import Base, CommitLog, Epochs
from reference.broker.consumer_requests import ConsumerRequests
from reference.broker.files import Then
from reference.broker.node import Broker
from reference.broker.producer_requests import ProducerBroker, ProducerRequests
from reference.broker.pulls import Pull
from reference.broker.queues import Queue, Queues, offsets_body
from reference.broker.records import OFFSET_RECORDS
from reference.broker.sends import PendingRequest
from reference.mutants._planted import NODE, Planted
from reference.wire.codes import Request
from reference.wire.command import Command


class NewestFileFirst(ConsumerRequests):
    """A batch that begins in one file of the log and ends in the next has its parts put together the wrong way."""

    def _local(self, env: Env, pull: Pull[Queue], end: int) -> list[bytes]:
        found = super()._local(env, pull, end)
        begin = pull.offset - pull.queue.first
        positions = pull.queue.positions[begin : begin + len(found)]
        bound = next((at for at in self._broker.log.segment_ends() if positions and at > positions[0]), 1 << 62)
        parts = sum(position < bound for position in positions)
        return found[parts:] + found[:parts]


class OffsetsInMemory(ProducerRequests):
    """Consumer offsets live in the master's memory; the log never hears of them."""

    def commit(self, env: Env, source: str, message: Command) -> None:
        broker, fields = self._broker, message.fields
        broker.must_serve()
        queue = broker.find_queue(fields["topic"], int(fields["queueId"]))
        broker.queues.offsets.setdefault(fields["consumerGroup"], {})[queue.index] = int(fields["commitOffset"])
        if not message.is_oneway:
            env.send(source, message.reply(fields=broker.identity_fields(env)))


class OffsetBeforeConfirm(ProducerRequests):
    """A commit is answered, and takes effect, when its record is written, not when it is confirmed."""

    def commit(self, env: Env, source: str, message: Command) -> None:
        super().commit(env, source, message)
        broker, fields = self._broker, message.fields
        waiting = self._changes.pop()
        queue = broker.find_queue(fields["topic"], int(fields["queueId"]))
        broker.queues.offsets.setdefault(fields["consumerGroup"], {})[queue.index] = int(fields["commitOffset"])
        waiting.respond(env, waiting.answer)


class BootstrapWithoutOffsets(CommitLog):
    """A replica that begins again is given queues and topics, but no consumer offsets."""

    def restart_at(self, env: Env, base: Base, epochs: Epochs, then: Then) -> None:
        super().restart_at(env, replace(base, offsets={}), epochs, then)


class LastCommitWins(Queues):
    """The commit that arrived last counts, however old it is."""

    def _commit(self, offsets: dict[str, dict[int, int]], value: dict[str, Any]) -> None:
        offsets.setdefault(value["group"], {})[value["queue"]] = value["offset"]


class LateCommitsAgain(ProducerRequests):
    """A commit that was not confirmed in time is written once more, when the group's next one has gone through."""

    def __init__(self, broker: ProducerBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self._again: dict[tuple[str, int], int] = {}  # group and queue → offset

    def late(self, env: Env, waiting: PendingRequest) -> None:
        super().late(env, waiting)
        if waiting.request.code == Request.UPDATE_CONSUMER_OFFSET:
            self._again[self._of(waiting)] = int(waiting.request.fields["commitOffset"])

    def complete(self, env: Env) -> None:
        before = tuple(self._changes)
        super().complete(env)
        for answered in before[: len(before) - len(self._changes)]:
            if answered.request.code == Request.UPDATE_CONSUMER_OFFSET and self._of(answered) in self._again:
                group, queue = self._of(answered)
                self.append_system(env, OFFSET_RECORDS, offsets_body(group, queue, self._again.pop((group, queue))))

    def _of(self, waiting: PendingRequest) -> tuple[str, int]:
        fields = waiting.request.fields
        return fields["consumerGroup"], self._broker.find_queue(fields["topic"], int(fields["queueId"])).index


class NewGroupsBeginAtTheEnd(ConsumerRequests):
    """A group that has committed nothing is given the end of the queue, as if it had read all that is there."""

    def committed(self, env: Env, source: str, message: Command) -> None:
        queue = self._asked_queue(message)
        known = self._broker.queues.offsets.setdefault(message.fields["consumerGroup"], {})
        known.setdefault(queue.index, self._broker.readable_end(queue))
        super().committed(env, source, message)


class ReadsBeforeConfirm(Broker):
    """Readers are given what the master has written, before anybody else has it and before it is on a disk."""

    def readable_end(self, queue: Queue) -> int:
        return queue.next


class CommitForEverybody(ProducerRequests):
    """What a group commits is stored for another one, too, of which nobody has heard."""

    def commit(self, env: Env, source: str, message: Command) -> None:
        super().commit(env, source, message)
        fields = message.fields
        queue = self._broker.find_queue(fields["topic"], int(fields["queueId"]))
        self.append_system(env, OFFSET_RECORDS, offsets_body("DEFAULT", queue.index, int(fields["commitOffset"])))


MUTANTS = (
    Planted(
        name="commit-for-everybody",
        law="consumers",
        stands_for="offsets that are kept under the default group's name as well: who joins it later skips messages",
        parts={"broker": {"producer_requests": CommitForEverybody}},
    ),
    Planted(
        name="newest-file-first",
        law="order",
        stands_for="a read that crosses into the next log file and returns its two parts in the wrong order",
        parts={"broker": {"consumer_requests": NewestFileFirst}},
    ),
    Planted(
        name="offsets-in-memory",
        law="consumers",
        stands_for="apache/rocketmq #10284: consumer offsets stop replicating, and a failover takes the group back",
        parts={"broker": {"producer_requests": OffsetsInMemory}},
    ),
    Planted(
        name="offset-before-confirm",
        law="consumers",
        stands_for="offsets that are synchronised every few seconds: a commit that was answered is gone after a switch",
        parts={"broker": {"producer_requests": OffsetBeforeConfirm}},
        scenario="stale_master",
    ),
    Planted(
        name="bootstrap-without-offsets",
        law="agreement",
        stands_for="a replica that copies the log and not the consumer offsets: groups that are silent begin anew",
        parts={"broker": {"log": BootstrapWithoutOffsets}},
        scenario="empty_slave",
    ),
    Planted(
        name="last-commit-wins",
        law="consumers",
        stands_for="RocketMQ's commitOffset takes a smaller offset: a commit that is repeated late takes a group back",
        parts={"broker": {"queues": LastCommitWins, "producer_requests": LateCommitsAgain}},
        scenario="pending_offset_commits",
    ),
    Planted(
        name="new-groups-begin-at-the-end",
        law="consumers",
        stands_for="consuming from the last offset without being asked to: a new group never sees what came before it",
        parts={"broker": {"consumer_requests": NewGroupsBeginAtTheEnd}},
        scenario="stale_master",
    ),
    Planted(
        name="reads-before-confirm",
        law="consumers",
        stands_for="apache/rocketmq #8239: a crash takes back what was read, another message gets its offset unseen",
        parts={"broker": {NODE: ReadsBeforeConfirm}},
        scenario="ack_by_master_alone",
    ),
)
