"""Planted bugs of order and of consumer offsets."""

from __future__ import annotations

from dataclasses import replace

from chaos.node import Env, Message
from reference.broker.commitlog import Base, CommitLog, Epochs
from reference.broker.consumer_requests import ConsumerRequests, Pull
from reference.broker.files import Then
from reference.broker.producer_requests import ProducerRequests
from reference.mutants._planted import Planted


class NewestFileFirst(ConsumerRequests):
    """A batch that begins in one file of the log and ends in the next has its parts put together the wrong way."""

    def _local(self, env: Env, pull: Pull, end: int) -> list[bytes]:
        found = super()._local(env, pull, end)
        begin = pull.offset - pull.queue.first
        positions = pull.queue.positions[begin : begin + len(found)]
        bound = next((at for at in self._broker.log.segment_ends() if positions and at > positions[0]), 1 << 62)
        parts = sum(position < bound for position in positions)
        return found[parts:] + found[:parts]


class OffsetsInMemory(ProducerRequests):
    """Consumer offsets live in the master's memory; the log never hears of them."""

    def commit(self, env: Env, source: str, message: Message) -> None:
        broker, fields = self._broker, message.fields
        broker.must_serve()
        queue = broker.find_queue(fields["topic"], int(fields["queueId"]))
        broker.queues.offsets.setdefault(fields["consumerGroup"], {})[queue.index] = int(fields["commitOffset"])
        if not message.is_oneway:
            env.send(source, message.reply(fields=broker.identity_fields(env)))


class OffsetBeforeConfirm(ProducerRequests):
    """A commit is answered, and takes effect, when its record is written, not when it is confirmed."""

    def commit(self, env: Env, source: str, message: Message) -> None:
        super().commit(env, source, message)
        broker, fields = self._broker, message.fields
        waiting = self._changes.pop()
        queue = broker.find_queue(fields["topic"], int(fields["queueId"]))
        broker.queues.offsets.setdefault(fields["consumerGroup"], {})[queue.index] = int(fields["commitOffset"])
        self._answer(env, waiting, waiting.answer)


class BootstrapWithoutOffsets(CommitLog):
    """A replica that begins anew is given queues and topics, but no consumer offsets."""

    def restart_at(self, env: Env, base: Base, epochs: Epochs, then: Then) -> None:
        super().restart_at(env, replace(base, offsets={}), epochs, then)


MUTANTS = (
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
)
