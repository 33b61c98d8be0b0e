"""What clients ask of a broker besides messages to read: sends, consumers' offsets, bounds of queues, searches by time.

Ends of queues and offsets of consumers are answered only once the epoch is confirmed (:mod:`.confirming`).
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.node import Env
from reference.broker.parts import Refused
from reference.broker.sends import PendingRequest, SendRequest
from reference.split.broker.asking import Stores
from reference.split.broker.owned import OpenGroup
from reference.split.broker.queues import OpenQueue
from reference.split.broker.reading import Found, Read
from reference.split.broker.slices import Slices
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import text, whole


def identity_fields(env: Env, queue: OpenQueue) -> dict[str, str]:
    """Return the fields by which an answer says who gave it."""
    return {"epoch": str(queue.epoch), "incarnation": str(env.incarnation)}


class QueueRequests:
    """Requests about one queue each."""

    def __init__(self, slices: Slices, stores: Stores) -> None:
        self._slices = slices
        self._stores = stores

    # Policy

    def needs_confirmation(self, request: Command) -> bool:
        """Return whether the epoch has to be confirmed before this is answered from memory."""
        return True

    # Writes

    def send(self, env: Env, source: str, message: Command) -> None:
        """10 and 310: append one message."""
        asked = SendRequest.read(message)
        group, queue = self._slices.find(message, asked.topic, asked.queue_id)
        asked.must_be_possible()
        asked.must_be_at_once()
        group.appends.append(env, source, message, asked, queue, self._slices.deadline_ns(env))

    def commit(self, env: Env, source: str, message: Command) -> None:
        """15: store a group's next offset to read."""
        fields = message.fields
        group, queue = self._find(message)
        consumer, offset = text(fields, "consumerGroup"), whole(fields, "commitOffset")
        if not 0 <= offset <= queue.end:
            raise Refused(Response.INVALID_PARAMETER, f"offset {offset} is not in 0..{queue.end}")
        answer = message.reply(fields=identity_fields(env, queue))
        waiting = PendingRequest(-1, source, message, answer, self._slices.deadline_ns(env))
        group.commits.put(env, (consumer, queue.topic_id, queue.number), offset, waiting)

    # Reads of what the owner knows

    def maximum(self, env: Env, source: str, message: Command) -> None:
        """30; ``minOffset`` is of the same moment."""
        group, queue = self._find(message)
        self._confirmed(
            env, source, message, group, lambda: {"offset": str(queue.end), "minOffset": str(queue.first)}, queue
        )

    def minimum(self, env: Env, source: str, message: Command) -> None:
        """31."""
        group, queue = self._find(message)
        self._confirmed(env, source, message, group, lambda: {"offset": str(queue.first)}, queue)

    def committed(self, env: Env, source: str, message: Command) -> None:
        """14: a group's stored offset."""
        group, queue = self._find(message)
        key = text(message.fields, "consumerGroup"), queue.topic_id, queue.number

        def found() -> dict[str, str]:
            offset = group.commits.offsets.get(key)
            if offset is None:
                raise Refused(Response.QUERY_NOT_FOUND, "the group has no offset for this queue")
            return {"offset": str(offset)}

        self._confirmed(env, source, message, group, found, queue)

    def _find(self, message: Command) -> tuple[OpenGroup, OpenQueue]:
        return self._slices.find(message, text(message.fields, "topic"), whole(message.fields, "queueId"))

    def _confirmed(
        self,
        env: Env,
        source: str,
        message: Command,
        group: OpenGroup,
        found: Callable[[], dict[str, str]],
        queue: OpenQueue,
    ) -> None:
        """Answer with what is found once the epoch is confirmed."""

        def then(env: Env, is_confirmed: bool) -> None:
            if not is_confirmed:
                env.send(source, unconfirmed(message))
                return
            try:
                answer = message.reply(fields={**found(), **identity_fields(env, queue)})
            except Refused as refusal:
                answer = message.reply(refusal.code, identity_fields(env, queue), remark=str(refusal))
            env.send(source, answer)

        if self.needs_confirmation(message):
            group.confirms.ask(env, then)
        else:
            then(env, True)

    # Search

    def search(self, env: Env, source: str, message: Command) -> None:
        """29: the first offset that was stored at or after a time (ms)."""
        group, queue = self._find(message)
        search = _Search(self._stores, source, message, queue, whole(message.fields, "timestamp"))

        def then(env: Env, is_confirmed: bool) -> None:
            if is_confirmed:
                search.begin(env)
            else:
                env.send(source, unconfirmed(message))

        group.confirms.ask(env, then)


class _Search:
    """A binary search by store time, which looks at one record at a time."""

    def __init__(self, stores: Stores, source: str, message: Command, queue: OpenQueue, wanted_ms: int) -> None:
        self._stores = stores
        self._source = source
        self._message = message
        self._queue = queue
        self._wanted_ms = wanted_ms
        self._low, self._high = 0, 0

    def begin(self, env: Env) -> None:
        """Search what the queue holds now."""
        self._low, self._high = self._queue.first, self._queue.end
        self._step(env)

    def _step(self, env: Env) -> None:
        if self._low < self._high:
            middle = (self._low + self._high) // 2
            Read(self._stores, self._queue, middle, self._looked, max_count=1, max_bytes=1).ask(env)
        else:
            fields = {"offset": str(self._low), **identity_fields(env, self._queue)}
            env.send(self._source, self._message.reply(fields=fields))

    def _looked(self, env: Env, found: Found | None) -> None:
        middle = (self._low + self._high) // 2
        if found is None:
            remark = "retry: no store has the record now"
            env.send(self._source, self._message.reply(Response.SYSTEM_BUSY, remark=remark))
            return
        if not found.records:  # trimmed meanwhile
            self._low = min(self._queue.first, self._high)
        elif found.records[0].store_ms < self._wanted_ms:
            self._low = middle + 1
        else:
            self._high = middle
        self._step(env)


def unconfirmed(message: Command) -> Command:
    """Return the answer of an owner that could not learn in time whether it still is one."""
    return message.reply(Response.SERVICE_NOT_AVAILABLE, remark="it is not known whether this broker owns the slice")
