"""Planted bugs of reads that lose their way: nothing is lost by them, and readers don't come forward."""

from __future__ import annotations

from chaos.node import Env
from reference.broker.consumer_requests import ConsumerBroker, ConsumerRequests
from reference.broker.pulls import Pull
from reference.broker.queues import Queue
from reference.mutants._planted import Planted
from reference.tier.interface import TierAnswer
from reference.wire.codes import Response

#: So long a new master keeps its readers waiting.
WARM_UP_NS = 40_000_000_000


class ReadsWaitAfterTakeover(ConsumerRequests):
    """A new master asks its readers to try again later, for as long as its cache is said to be cold."""

    def __init__(self, broker: ConsumerBroker) -> None:
        super().__init__(broker)
        self._since: dict[int, int] = {}  # epoch → when its first reader came

    def _read(self, env: Env, pull: Pull[Queue]) -> None:
        since = self._since.setdefault(self._broker.epoch, env.mono_ns())
        if self._broker.epoch > 1 and env.mono_ns() - since < WARM_UP_NS:
            self._answer(env, pull, Response.PULL_RETRY_IMMEDIATELY, pull.offset, "local", remark="warming up")
        else:
            super()._read(env, pull)


class NextOffsetCycles(ConsumerRequests):
    """Who read from the tier is sent back to where it began."""

    def _found(self, env: Env, pull: Pull[Queue], records: list[bytes], source: str) -> None:
        behind = pull.offset + len(records) if source == "local" else pull.offset
        self._answer(env, pull, Response.SUCCESS, behind, source, b"".join(records), "FOUND")


class TierFailureReadsAsEmpty(ConsumerRequests):
    """A tier that can't be reached is answered as one that holds nothing there."""

    def _tier_answered(self, env: Env, pull: Pull[Queue], answer: TierAnswer) -> None:
        if answer.retry:
            self._answer(env, pull, Response.PULL_NOT_FOUND, pull.offset, "tier", remark="NO_MATCHED_MESSAGE")
        else:
            super()._tier_answered(env, pull, answer)


MUTANTS = (
    Planted(
        name="reads-wait-after-takeover",
        law="progress",
        stands_for="reads that stop while writes go on: a blocked dispatch or prefetch (as in apache/rocketmq #10998)",
        parts={"broker": {"consumer_requests": ReadsWaitAfterTakeover}},
        scenario="stale_master",
    ),
    Planted(
        name="next-offset-cycles",
        law="progress",
        stands_for="apache/rocketmq #7363: the next offset of a read from the tier goes back, and all comes again",
        parts={"broker": {"consumer_requests": NextOffsetCycles}},
        scenario="broken_tier",
    ),
    Planted(
        name="tier-failure-reads-as-empty",
        law="progress",
        stands_for="a tiered read that fails and is answered NO_MATCHED_MESSAGE, as if the offset did not exist",
        parts={"broker": {"consumer_requests": TierFailureReadsAsEmpty}},
        scenario="long_outage",
    ),
)
