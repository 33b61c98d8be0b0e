"""Requests for locks of queues, by consumers that read in order. Source: RocketMQ's ``RebalanceLockManager``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.node import Env
from reference.broker.locks import LOCK_MS, lock_body
from reference.broker.parts import Refused
from reference.broker.producer_requests import ProducerBroker, ProducerRequests
from reference.broker.queues import MAX_OFFSETS, Queue
from reference.broker.records import LOCK_RECORDS
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import item, listed, read_object, to_json

_MS = 1_000_000


class LockRequests:
    """``_changing``: what this master has written of a lock: member, until when, and where that record ends. It counts
    for later requests before it is confirmed."""

    def __init__(self, broker: ProducerBroker, producer: ProducerRequests, options: Mapping[str, Any]) -> None:
        self._broker = broker
        self._producer = producer
        self._lock_ms = int(options.get("lock_ms", LOCK_MS))
        self._changing: dict[tuple[str, int], tuple[str, int, int]] = {}

    # Policy

    def holder(self, group: str, queue: int, now_ms: int) -> str:
        """Return who holds the lock of a queue now, as far as this master has written it down; "" for nobody."""
        written = self._changing.get((group, queue))
        if written is not None:
            client, until_ms, _ = written
            return client if now_ms < until_ms else ""
        return self._broker.queues.locks.holder(group, queue, now_ms)

    # Requests

    def lock(self, env: Env, source: str, message: Command) -> None:
        """41: lock these queues for a member of a group, or renew its locks. The answer names those that it holds."""
        self._broker.must_serve()
        group, client, queues = self._asked(message)
        now_ms = env.wall_ns() // _MS
        self._forget_confirmed()
        free = [queue for queue in queues if self.holder(group, queue.index, now_ms) in ("", client)]
        self._write(env, group, free, client, now_ms + self._lock_ms)
        named = [{"topic": one.topic, "brokerName": self._name(message, one), "queueId": one.queue_id} for one in free]
        self._producer.await_effect(env, source, message, self._identity(env), to_json({"lockOKMQSet": named}))

    def unlock(self, env: Env, source: str, message: Command) -> None:
        """42: give the locks of these queues back, as far as the member holds them."""
        self._broker.must_serve()
        group, client, queues = self._asked(message)
        now_ms = env.wall_ns() // _MS
        self._forget_confirmed()
        mine = [queue for queue in queues if self.holder(group, queue.index, now_ms) == client]
        self._write(env, group, mine, "", 0)
        self._producer.await_effect(env, source, message, self._identity(env))

    def _write(self, env: Env, group: str, queues: Sequence[Queue], client: str, until_ms: int) -> None:
        if not queues:
            return
        self._producer.must_be_in_sync()
        self._producer.must_be_readable(env)
        locks = self._broker.queues.locks
        if client and not all(locks.has_room(group, queue.index, MAX_OFFSETS) for queue in queues):
            raise Refused(Response.NO_PERMISSION, "there is no room for more locks of groups")
        for queue in queues:
            self._producer.append_system(env, LOCK_RECORDS, lock_body(group, queue.index, client, until_ms))
            self._changing[group, queue.index] = client, until_ms, self._broker.log.end

    def _forget_confirmed(self) -> None:
        confirmed = self._broker.queues.dispatched
        self._changing = {place: one for place, one in self._changing.items() if one[2] > confirmed}

    def abandon(self) -> None:
        """The role is lost: what became of the records is for the next master to say."""
        self._changing.clear()

    # What is asked

    def _asked(self, message: Command) -> tuple[str, str, list[Queue]]:
        """Read a request: group, member, and the queues that are here. Raises :class:`chaos.node.Malformed`."""
        value = read_object(message.body)
        group, client = item(value, "consumerGroup", str), item(value, "clientId", str)
        queues = []
        for one in listed({"mqSet": [], **value}, "mqSet", dict):
            queue = self._broker.queues.queue(item(one, "topic", str), item(one, "queueId", int))
            if queue is not None and self._broker.queues.topics[queue.topic].is_served and queue not in queues:
                queues.append(queue)
        if not group or not client:
            raise Refused(Response.INVALID_PARAMETER, "a lock needs consumerGroup and clientId")
        return group, client, queues

    def _name(self, message: Command, queue: Queue) -> str:
        """Return what the member calls the queue's broker."""
        for one in read_object(message.body)["mqSet"]:
            if (one["topic"], one["queueId"]) == (queue.topic, queue.queue_id):
                return str(one.get("brokerName", ""))
        return ""

    def _identity(self, env: Env) -> dict[str, str]:
        return self._broker.identity_fields(env)
