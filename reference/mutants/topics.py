"""Planted bugs of topics: one is acknowledged and then is not there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chaos.node import Env
from reference.broker.commitlog import Base
from reference.broker.producer_requests import ProducerRequests
from reference.broker.queues import Queues
from reference.mutants._planted import Planted
from reference.nameserver import Registration, Routes
from reference.wire.command import Command


class TopicBeforeConfirm(ProducerRequests):
    """A creation is answered when its record is written, not when it is confirmed."""

    def create_topic(self, env: Env, source: str, message: Command) -> None:
        super().create_topic(env, source, message)
        if self._changes and self._changes[-1].request is message:
            waiting = self._changes.pop()
            waiting.respond(env, waiting.answer)


class TopicsOfDefaultSize(ProducerRequests):
    """A topic is given the broker's own number of queues, if that is more than was asked for."""

    def create_topic(self, env: Env, source: str, message: Command) -> None:
        count = max(2, int(message.fields.get("writeQueueNums", 0)))
        super().create_topic(env, source, replace(message, fields={**message.fields, "writeQueueNums": str(count)}))


class TopicsOfTheTermsBeginning(Routes):
    """A master's topics are taken when its term begins; of those that it registers later nobody hears."""

    def register(
        self, group: str, cluster: str, registration: Registration, topics: Mapping[str, Mapping[str, Any]]
    ) -> bool:
        known = self.groups.get(group)
        if known is not None and known.topics and registration.epoch <= known.topics_epoch:
            topics = known.topics
        return super().register(group, cluster, registration, topics)


class DeletionInMemory(ProducerRequests):
    """A master forgets a deleted topic by itself; no record of its log says so to others."""

    def delete_topic(self, env: Env, source: str, message: Command) -> None:
        queues = self._broker.queues
        self._broker.must_serve()
        topic = queues.topics.get(message.fields["topic"])
        if topic is not None and topic.confirmed:
            queues._end_topic(topic)
        self.await_effect(env, source, message, self._broker.identity_fields(env))


class DeletionLostInBase(Queues):
    """What is kept of the log's forgotten part names the topics that were made there, not those deleted since."""

    def base_at(self, base: Base, position: int) -> Base:
        return replace(super().base_at(base, position), deleted=[])


MUTANTS = (
    Planted(
        name="topic-of-default-size",
        law="topics",
        stands_for="a broker that gives a new topic its default number of queues, whatever was asked for",
        parts={"broker": {"producer_requests": TopicsOfDefaultSize}},
        scenario="new_topics",
    ),
    Planted(
        name="topic-before-confirm",
        law="topics",
        stands_for="apache/rocketmq #9804: a topic that only the master knows is gone after a switch",
        parts={"broker": {"producer_requests": TopicBeforeConfirm}},
        scenario="new_topics",
    ),
    Planted(
        name="topics-registered-once",
        law="topics",
        stands_for="a DataVersion that a new topic does not raise: the name server never takes the registration",
        parts={"nameserver": {"routes": TopicsOfTheTermsBeginning}},
        scenario="new_topics",
    ),
    Planted(
        name="deletion-in-memory",
        law="topics",
        stands_for="a deletion that only the master knows: the topic is there again after a switch",
        parts={"broker": {"producer_requests": DeletionInMemory}},
        scenario="deleted_topics",
    ),
    Planted(
        name="deletion-lost-in-base",
        law="topics",
        stands_for="a replica that begins with a snapshot of the topics, taken before some were deleted",
        parts={"broker": {"queues": DeletionLostInBase}},
        scenario="deleted_topics",
    ),
)
