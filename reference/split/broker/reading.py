"""How a broker gets records of a queue from the stores: from any member of its group, the next one where one lags."""

from __future__ import annotations

from collections.abc import Callable

from chaos.node import Env, Malformed
from reference.broker.records import BadRecord, Record, decode
from reference.split.broker.asking import Outcome, Stores
from reference.split.broker.queues import OpenQueue
from reference.split.requests import ANYWHERE, TIER_ONLY, ReadAnswer, ReadRequest
from reference.wire.codes import Response
from reference.wire.command import Command

#: So many times are stores asked for the same records before the reader has to ask again.
MOST_ATTEMPTS = 12


class Read:
    """One read of a queue. ``then`` is called once: with the records as they are stored; with no records where the
    queue begins above ``offset`` by now, or the tier that was demanded has none; or with None where no store could give
    them."""

    def __init__(
        self,
        stores: Stores,
        queue: OpenQueue,
        offset: int,
        then: Callable[[Env, Found | None], None],
        *,
        max_count: int,
        max_bytes: int,
        tier: str = ANYWHERE,
    ) -> None:
        self._stores = stores
        self._queue = queue
        self._offset = offset
        self._then = then
        self._limits = max_count, max_bytes
        self._tier = tier
        self._attempt = 0

    def ask(self, env: Env) -> None:
        """Ask the next store."""
        queue = self._queue
        request = ReadRequest(
            group=queue.group,
            map=self._stores.map_of(queue.group),
            topic_id=queue.topic_id,
            number=queue.number,
            offset=self._offset,
            count=self._limits[0],
            bytes=self._limits[1],
            tier=self._tier,
        )
        self._stores.ask_reader(env, queue.group, self._attempt, request, self._understand, self._came)

    def _understand(self, message: Command) -> Found:
        """Return the records of an answer. Raises :class:`chaos.node.Malformed` for other ones than those that were
        asked for."""
        answer = ReadAnswer.read(message)
        found = Found(answer.start, answer.source, answer.records)
        for at, record in enumerate(found.records):
            if (record.queue_id, record.offset) != (self._queue.number, self._offset + at):
                raise Malformed(f"record {record.offset} of queue {record.queue_id} was not asked for")
        may_be_empty = self._tier == TIER_ONLY and found.source == "tier"
        if not (0 if may_be_empty else 1) <= len(found.records) <= self._limits[0]:
            raise Malformed(f"{len(found.records)} records, where 1 to {self._limits[0]} were asked for")
        return found

    def _came(self, env: Env, outcome: Outcome[Found]) -> None:
        if outcome.answer is not None:
            self._queue.trimmed(outcome.answer.start)
            self._then(env, outcome.answer)
        elif self._is_below(outcome):
            assert outcome.refusal is not None
            self._queue.trimmed(outcome.refusal.start)
            self._then(env, Found(outcome.refusal.start, "local", b""))
        else:
            self._attempt += 1
            members = len(self._stores.members(self._queue.group))
            if self._attempt < members:
                self.ask(env)
            elif self._attempt < (members if self._tier else MOST_ATTEMPTS):
                self._stores.again(env, outcome, self.ask)
            else:
                self._then(env, None)

    def _is_below(self, outcome: Outcome[Found]) -> bool:
        refusal = outcome.refusal
        return refusal is not None and refusal.code == Response.GROUP_BELOW_START and refusal.start > self._offset


class Found:
    """Records of a queue that follow one another, and its first offset. Raises :class:`chaos.node.Malformed` for bytes
    that are no records."""

    def __init__(self, start: int, source: str, data: bytes) -> None:
        self.start = start
        self.source = source
        self.records: list[Record] = []
        self.parts: list[bytes] = []
        at = 0
        try:
            while at < len(data):
                record = decode(data, at)
                self.records.append(record)
                self.parts.append(data[at : at + record.size])
                at += record.size
        except BadRecord as error:
            raise Malformed(f"these are no records: {error}") from error
