"""Planted bugs of what readers are answered: by slaves, about the ends of queues, and while they wait."""

from __future__ import annotations

from typing import Any, cast

from chaos.node import Env
from reference.broker.consumer_requests import ConsumerBroker, ConsumerRequests
from reference.broker.pulls import Pull
from reference.broker.queues import Queue
from reference.mutants._planted import Planted
from reference.wire.codes import Response

#: How many messages a slave leaves out.
AHEAD = 10
#: So often a slave looks how far it may be read.
LOOKS_NS = 8_000_000_000


class SlaveSendsAhead(ConsumerRequests):
    """A slave sends each reader on past what it gave, and past as many messages besides."""

    def _found(self, env: Env, pull: Pull[Queue], records: list[bytes], source: str) -> None:
        ahead = 0 if self._broker.has_master_role else AHEAD
        following = pull.offset + len(records) + ahead
        self._answer(env, pull, Response.SUCCESS, following, source, b"".join(records), "FOUND")


class SlaveCallsTierEmpty(ConsumerRequests):
    """A slave that has deleted an offset from its own log says that nothing is there, and never asks the tier."""

    def _read(self, env: Env, pull: Pull[Queue]) -> None:
        if not self._broker.has_master_role and pull.demand == "" and pull.offset < pull.queue.first:
            self._answer(env, pull, Response.PULL_NOT_FOUND, pull.offset, "local", remark="NO_MATCHED_MESSAGE")
        else:
            super()._read(env, pull)


class SlaveSaysLater(ConsumerRequests):
    """A slave that has deleted an offset from its own log asks the reader to come again, each time."""

    def _read(self, env: Env, pull: Pull[Queue]) -> None:
        if not self._broker.has_master_role and pull.demand == "" and pull.offset < pull.queue.first:
            self._answer(env, pull, Response.PULL_RETRY_IMMEDIATELY, pull.offset, "tier", remark="retry")
        else:
            super()._read(env, pull)


class FirstMinimumKept(ConsumerRequests):
    """The first minimum of a queue that a replica ever reported is the one that it goes on reporting."""

    def __init__(self, broker: ConsumerBroker) -> None:
        super().__init__(broker)
        self._minimums: dict[int, int] = {}

    def _minimum(self, queue: Queue) -> int:
        return self._minimums.setdefault(queue.index, super()._minimum(queue))


class _OldEnds:
    """A broker that, as a slave, looks only now and then how far its readers may read."""

    def __init__(self, broker: ConsumerBroker) -> None:
        self._broker = broker
        self._seen: dict[tuple[int, int], tuple[int, int]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def readable_end(self, queue: Queue) -> int:
        broker = self._broker
        if broker.has_master_role:
            return broker.readable_end(queue)
        key, now_ns = (broker.epoch, queue.index), cast(Any, broker).env.mono_ns()
        since_ns, end = self._seen.get(key, (-LOOKS_NS, 0))
        if now_ns - since_ns >= LOOKS_NS:
            since_ns, end = self._seen[key] = now_ns, broker.readable_end(queue)
        return end


class SlaveEndsEarlier(ConsumerRequests):
    """A slave's readers see what it has confirmed seconds late, though it is in sync."""

    def __init__(self, broker: ConsumerBroker) -> None:
        super().__init__(cast(ConsumerBroker, _OldEnds(broker)))


class SlaveEndsLater(ConsumerRequests):
    """A slave reports messages to its readers that it has not got."""

    def reported_end(self, queue: Queue) -> int:
        return super().reported_end(queue) + (0 if self._broker.has_master_role else AHEAD)


class SlaveBeginsAtItsLog(ConsumerRequests):
    """A slave says to its readers that a queue begins where its own log does, whatever the tier holds."""

    def _minimum(self, queue: Queue) -> int:
        return super()._minimum(queue) if self._broker.has_master_role else queue.first


class WokenByTimeout(ConsumerRequests):
    """A pull that is held is looked at again only when its time is over."""

    def wake(self, env: Env) -> None:
        return


class WakesOne(ConsumerRequests):
    """Of all that wait at one queue a new message wakes the one that has waited longest."""

    def wake(self, env: Env) -> None:
        ready = [pull for pull in self._held if self._broker.readable_end(pull.queue) != pull.offset]
        for pull in {pull.queue.index: pull for pull in reversed(ready)}.values():
            self._held.remove(pull)
            self._read(env, pull)


MUTANTS = (
    Planted(
        name="slave-sends-ahead",
        law="progress",
        stands_for="alibaba/rocketmq #395, #210, #351: a slave sends readers past what it gave",
        parts={"broker": {"consumer_requests": SlaveSendsAhead}},
        scenario="reads_from_slaves",
    ),
    Planted(
        name="slave-calls-tier-empty",
        law="progress",
        stands_for="a slave that says of what it lacks itself that nothing is there",
        parts={"broker": {"consumer_requests": SlaveCallsTierEmpty}},
        scenario="reads_from_slaves",
    ),
    Planted(
        name="slave-says-later",
        law="progress",
        stands_for="a replica whose every read of old messages is to be tried again later, without end",
        parts={"broker": {"consumer_requests": SlaveSaysLater}},
        scenario="old_reads_from_slaves",
    ),
    Planted(
        name="first-minimum-kept",
        law="progress",
        stands_for="apache/rocketmq #8753, #1960: a queue's minimum that does not move when messages are deleted",
        parts={"broker": {"consumer_requests": FirstMinimumKept}},
        scenario="tier_retention",
    ),
    Planted(
        name="slave-ends-earlier",
        law="progress",
        stands_for="a replica's view of the queue's end that is refreshed by a timer: its readers are seconds behind",
        parts={"broker": {"consumer_requests": SlaveEndsEarlier}},
        scenario="old_reads_from_slaves",
    ),
    Planted(
        name="slave-ends-later",
        law="no-rollback",
        stands_for="readUnCommitted on slaves: what they show to be there is on no other replica, and never comes",
        parts={"broker": {"consumer_requests": SlaveEndsLater}},
        scenario="reads_from_slaves",
    ),
    Planted(
        name="slave-begins-at-its-log",
        law="durability",
        stands_for="a slave's minimum that leaves out what only the tier holds",
        parts={"broker": {"consumer_requests": SlaveBeginsAtItsLog}},
        scenario="old_reads_from_slaves",
    ),
    Planted(
        name="woken-by-timeout",
        law="progress",
        stands_for="apache/rocketmq #7358, #8472: a held pull that no arriving message wakes",
        parts={"broker": {"consumer_requests": WokenByTimeout}},
        scenario="long_polling",
    ),
    Planted(
        name="wakes-one",
        law="progress",
        stands_for="a notification that one of several waiting readers takes, so that the others sleep on",
        parts={"broker": {"consumer_requests": WakesOne}},
        scenario="long_polling",
    ),
)
