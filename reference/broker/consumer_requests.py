"""Requests that read: messages, bounds of queues, consumer offsets."""

from __future__ import annotations

from typing import Protocol

from chaos.node import Env
from reference.broker.index import MessageIndex
from reference.broker.parts import Refused, Service
from reference.broker.pulls import HELD, Pull, PullRequests
from reference.broker.queues import Queue
from reference.tier.interface import Level, TierAnswer
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import text, whole


class ConsumerBroker(Service, Protocol):
    """The broker, as its readers see it."""

    @property
    def has_master_role(self) -> bool: ...

    @property
    def is_fenced(self) -> bool:
        """Without a role in this life."""

    def readable_end(self, queue: Queue) -> int:
        """Return the offset after the last record that readers may see."""


class ConsumerRequests(PullRequests[Queue]):
    def __init__(self, broker: ConsumerBroker) -> None:
        super().__init__()
        self._broker = broker
        self.index = MessageIndex(broker, HELD)

    # Pull

    def pull(self, env: Env, source: str, message: Command) -> None:
        """11 and 361: read from an offset on; at the end the request may be held until there is more."""
        fields, broker = message.fields, self._broker
        broker.must_serve(any_replica=fields.get("anyReplica") == "true")
        queue = broker.find_queue(text(fields, "topic"), whole(fields, "queueId"))
        self._read(env, Pull.read(env, source, message, queue, broker.epoch, self.subscriptions.of_pull(message)))

    def _read(self, env: Env, pull: Pull[Queue]) -> None:
        if pull.demand == "tier" or (pull.demand != "local" and self.prefers_tier(pull)):
            self._read_tier(env, pull)
        else:
            self._read_log(env, pull)

    def prefers_tier(self, pull: Pull[Queue]) -> bool:
        """Policy: whether a pull that demands no source is answered from the tier, as far as that can."""
        queue, level, log = pull.queue, self._broker.tier.level, self._broker.log
        if level is Level.DISABLE:
            return False
        if pull.offset < queue.first or level is Level.NOT_IN_DISK:
            return pull.offset < queue.first
        view = self._broker.tier.view(queue.index)
        if view is None or pull.offset >= min(view.end, self._broker.readable_end(queue)):
            return False
        newest = max(log.segment_ends(), default=log.first)
        return level is Level.FORCE or queue.positions[pull.offset - queue.first] < newest

    def _read_log(self, env: Env, pull: Pull[Queue]) -> None:
        queue, end = pull.queue, self._broker.readable_end(pull.queue)
        if pull.offset < queue.first:
            self._moved(env, pull, queue.first)
        elif pull.offset < end:
            self._give(env, pull, self._local(env, pull, end), "local")
        elif pull.offset == end and self._may_hold(env, pull):
            self._hold(env, pull)
        elif pull.offset == end:
            self._answer(env, pull, Response.PULL_NOT_FOUND, pull.offset, "local", remark="OFFSET_OVERFLOW_ONE")
        elif self._broker.has_master_role:
            self._moved(env, pull, end)
        else:  # a slave may just be behind
            self._answer(env, pull, Response.PULL_RETRY_IMMEDIATELY, pull.offset, "local")

    def _local(self, env: Env, pull: Pull[Queue], end: int) -> list[bytes]:
        queue, log = pull.queue, self._broker.log
        found: list[bytes] = []
        size = 0
        for at in range(pull.offset - queue.first, min(end, pull.offset + pull.max_count) - queue.first):
            size += queue.sizes[at]
            if found and size > pull.max_bytes:
                break
            found.append(log.read_record(env, queue.positions[at], queue.sizes[at]))
        return found

    def _read_tier(self, env: Env, pull: Pull[Queue]) -> None:
        def then(env: Env, answer: TierAnswer) -> None:
            self._tier_answered(env, pull, answer)

        ahead = self._broker.readable_end(pull.queue) - pull.offset  # a slave's tier may be ahead of its log
        most = min(pull.max_count, ahead) if pull.offset >= pull.queue.first and ahead > 0 else pull.max_count
        limits = {"max_bytes": pull.max_bytes, "max_count": most}
        self._broker.tier.read(env, pull.queue.index, pull.offset, then=then, **limits)

    def _tier_answered(self, env: Env, pull: Pull[Queue], answer: TierAnswer) -> None:
        if self._broker.epoch != pull.epoch or self._broker.is_fenced:
            remark = "the role changed meanwhile"
            env.send(pull.source, pull.request.reply(Response.SERVICE_NOT_AVAILABLE, remark=remark))
        elif not answer.records and pull.demand != "tier" and pull.offset >= pull.queue.first:
            self._read_log(env, pull)  # it was preferred, and can't say
        elif answer.retry:
            self._answer(env, pull, Response.PULL_RETRY_IMMEDIATELY, pull.offset, "tier", remark="retry")
        elif answer.too_small:
            self._moved(env, pull, answer.start)
        elif answer.records:
            self._give(env, pull, [stored.data for stored in answer.records], "tier")
        elif pull.demand != "tier" and pull.offset < pull.queue.first:
            self._beside_tier(env, pull)
        else:
            self._answer(env, pull, Response.PULL_NOT_FOUND, pull.offset, "tier", remark="NO_MATCHED_MESSAGE")

    def _beside_tier(self, env: Env, pull: Pull[Queue]) -> None:
        """Answer a pull for which the tier says that it holds nothing there: without a tier that is final, else its
        view was behind."""
        if self._broker.is_tiered:
            self._answer(env, pull, Response.PULL_RETRY_IMMEDIATELY, pull.offset, "tier", remark="retry")
        else:
            self._moved(env, pull, pull.queue.first)

    def readable_end(self, queue: Queue) -> int:
        return self._broker.readable_end(queue)

    def _identity(self, env: Env, queue: Queue) -> dict[str, str]:
        return self._broker.identity_fields(env)

    def _minimum(self, queue: Queue) -> int:
        """Return where the queue begins. A replica that doesn't know yet what the tier holds below its own log reports
        the least that it may be: readers who believed a higher one would pass over messages."""
        if self._broker.tier.level is Level.DISABLE:
            return queue.first
        view = self._broker.tier.view(queue.index)
        if view is None:
            return 0 if self._broker.is_tiered else queue.first
        empty = view.start >= view.end
        return queue.first if empty and queue.first <= view.end else min(view.start, queue.first)

    def _hold(self, env: Env, pull: Pull[Queue]) -> None:
        super()._hold(env, pull)
        self.index.wake(env)  # they share a timer

    def wake(self, env: Env) -> None:
        """Queues may have grown, or be gone."""
        gone = [pull for pull in self._held if pull.queue.gone]
        if gone:
            self._held = [pull for pull in self._held if not pull.queue.gone]
        for pull in gone:
            fields, remark = self._identity(env, pull.queue), f"topic {pull.queue.topic} was deleted"
            env.send(pull.source, pull.request.reply(Response.TOPIC_NOT_EXIST, fields, remark=remark))
        super().wake(env)

    def timer(self, env: Env) -> None:
        super().timer(env)
        self.index.go_on(env)

    def closed(self, env: Env, peer: str) -> None:
        super().closed(env, peer)
        self.index.closed(peer)

    def abandon(self, env: Env) -> None:
        """Refuse the pulls that are held, since the role has changed: their clients ask again, perhaps another
        broker."""
        held, self._held = self._held, []
        for pull in held:
            env.send(pull.source, pull.request.reply(Response.SERVICE_NOT_AVAILABLE, remark="the role changed"))

    # Bounds and offsets

    def maximum(self, env: Env, source: str, message: Command) -> None:
        """30; ``minOffset`` is of the same moment."""
        queue = self._asked_queue(message)
        fields = {"offset": str(self.reported_end(queue)), "minOffset": str(self._minimum(queue))}
        env.send(source, message.reply(fields={**fields, **self._broker.identity_fields(env)}))

    def minimum(self, env: Env, source: str, message: Command) -> None:
        """31."""
        fields = {"offset": str(self._minimum(self._asked_queue(message)))}
        env.send(source, message.reply(fields={**fields, **self._broker.identity_fields(env)}))

    def search(self, env: Env, source: str, message: Command) -> None:
        """29."""
        offset = self.offset_at(env, self._asked_queue(message), whole(message.fields, "timestamp"))
        env.send(source, message.reply(fields={"offset": str(offset), **self._broker.identity_fields(env)}))

    def offset_at(self, env: Env, queue: Queue, wanted: int) -> int:
        """Return the first local offset that was stored at or after a time (ms)."""
        log = self._broker.log
        low, high = 0, self._broker.readable_end(queue) - queue.first
        while low < high:
            middle = (low + high) // 2
            data = log.read_record(env, queue.positions[middle], queue.sizes[middle])
            if log.decode(data).store_ms < wanted:
                low = middle + 1
            else:
                high = middle
        return queue.first + low

    def _asked_queue(self, message: Command) -> Queue:
        self._broker.must_serve(any_replica=message.fields.get("anyReplica") == "true")
        return self._broker.find_queue(text(message.fields, "topic"), whole(message.fields, "queueId"))

    def committed(self, env: Env, source: str, message: Command) -> None:
        """14: a group's stored offset."""
        queue, group = self._asked_queue(message), text(message.fields, "consumerGroup")
        offset = self._broker.queues.offsets.get(group, {}).get(queue.index)
        if offset is None:
            raise Refused(Response.QUERY_NOT_FOUND, "the group has no offset for this queue")
        env.send(source, message.reply(fields={"offset": str(offset), **self._broker.identity_fields(env)}))
