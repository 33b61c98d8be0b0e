"""Planted bugs at the limits of what a broker takes and gives."""

from __future__ import annotations

from dataclasses import replace

from chaos.node import Env
from reference.broker.consumer_requests import ConsumerBroker, ConsumerRequests
from reference.broker.index import MessageIndex
from reference.broker.producer_requests import ProducerRequests
from reference.broker.pulls import HELD, Pull
from reference.broker.queues import Queue
from reference.mutants._planted import Planted
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import whole


class AsMuchAsAskedFor(ConsumerRequests):
    """Who asks for more bytes than an answer may have gets them."""

    def _read(self, env: Env, pull: Pull[Queue]) -> None:
        asked = whole(pull.request.fields, "maxMsgBytes", pull.max_bytes)
        super()._read(env, replace(pull, max_bytes=max(asked, pull.max_bytes)))


class FilterSkipsTheRest(ConsumerRequests):
    """A reader with a filter is sent on behind all that was examined, also behind what did not fit into the answer."""

    def _give(self, env: Env, pull: Pull[Queue], records: list[bytes], source: str) -> None:
        if pull.selection is None:
            super()._give(env, pull, records, source)
            return
        found, _ = pull.selection.of(records)
        behind, code = pull.offset + len(records), Response.SUCCESS if found else Response.PULL_RETRY_IMMEDIATELY
        self._answer(env, pull, code, behind, source, b"".join(found))


class HeartbeatsSayNothing(ConsumerRequests):
    """A read that relies on what its group has registered gets everything."""

    def _read(self, env: Env, pull: Pull[Queue]) -> None:
        carries = whole(pull.request.fields, "sysFlag") & 4
        super()._read(env, pull if carries else replace(pull, selection=None))


class BoundsOfTheLog(ConsumerRequests):
    """Administrators see where the broker's own log of a queue begins, whatever the tier holds."""

    def bounds(self, queue: Queue) -> tuple[int, int]:
        return queue.first, self.reported_end(queue)


class IndexOfThisLife(ConsumerRequests):
    """Messages are found by their keys only if they were confirmed after somebody has asked for the first time."""

    def __init__(self, broker: ConsumerBroker) -> None:
        super().__init__(broker)
        self.index = _NewIndex(broker, HELD)


class _NewIndex(MessageIndex):
    def _follow_log(self, env: Env) -> None:
        super()._follow_log(env)
        if not self._positions:
            self._at = self._broker.queues.dispatched


class TopicOfNothing(ProducerRequests):
    """A topic without queues is acknowledged, and there is none."""

    def create_topic(self, env: Env, source: str, message: Command) -> None:
        if message.fields.get("writeQueueNums") == "0":
            env.send(source, message.reply())
        else:
            super().create_topic(env, source, message)


MUTANTS = (
    Planted(
        name="as-much-as-asked-for",
        law="answers",
        stands_for="a read without a bound of the server's own: one answer takes the broker's memory",
        parts={"broker": {"consumer_requests": AsMuchAsAskedFor}},
        scenario="request_limits",
    ),
    Planted(
        name="filter-skips-the-rest",
        law="answers",
        stands_for="a filtered read whose next offset counts all that was examined: what did not fit is lost",
        parts={"broker": {"consumer_requests": FilterSkipsTheRest}},
        scenario="request_limits",
    ),
    Planted(
        name="heartbeats-say-nothing",
        law="answers",
        stands_for="a broker that forgets registered subscriptions: push consumers get what they did not want",
        parts={"broker": {"consumer_requests": HeartbeatsSayNothing}},
        scenario="request_limits",
    ),
    Planted(
        name="bounds-of-the-log",
        law="answers",
        stands_for="statistics that leave the tier out: a queue seems to begin where its local log does",
        parts={"broker": {"consumer_requests": BoundsOfTheLog}},
        scenario="conformance",
    ),
    Planted(
        name="index-of-this-life",
        law="answers",
        stands_for="apache/rocketmq #7477: the index is lost by a restart, and queries by key find nothing",
        parts={"broker": {"consumer_requests": IndexOfThisLife}},
        scenario="request_limits",
    ),
    Planted(
        name="topic-of-nothing",
        law="answers",
        stands_for="a request that makes no sense and is acknowledged: its sender relies on what is not there",
        parts={"broker": {"producer_requests": TopicOfNothing}},
        scenario="request_limits",
    ),
)
