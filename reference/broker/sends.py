"""Requests to send a message: what a producer asks, whether it can be had, and how it waits for its answer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from chaos.node import Address, Env
from reference.broker.parts import Refused
from reference.broker.records import MAX_BODY_BYTES, MAX_USER_PROPERTIES_BYTES, encode
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import text, whole
from reference.wire.requests import SHORT_NAMES

_TRANSACTION, _BATCH = 0b1100, 0b1100_0000  # in a message's sysFlag
#: Properties that ask for what brokers here can't do, each with its value.
_IMPOSSIBLE = re.compile(
    "(?:^|\x02)(DELAY|TIMER_DELAY_SEC|TIMER_DELAY_MS|TIMER_DELIVER_MS|TRAN_MSG|INNER_MULTI_DISPATCH)\x01([^\x02]*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """A message as its producer sent it."""

    topic: str
    queue_id: int
    properties: str
    born_ms: int
    flag: int
    sys_flag: int
    reconsume_times: int
    batch: bool
    body: bytes

    @classmethod
    def read(cls, message: Command) -> SendRequest:
        """Read a request to send. Raises :class:`chaos.node.Malformed`."""
        fields = message.fields
        names = _SHORT if message.code == Request.SEND_MESSAGE_V2 else _LONG
        topic, queue, properties, born, flag, sys_flag, reconsumed, batch = names
        return cls(
            topic=text(fields, topic),
            queue_id=whole(fields, queue),
            properties=fields.get(properties, ""),
            born_ms=whole(fields, born),
            flag=whole(fields, flag, bits=32),
            sys_flag=whole(fields, sys_flag, bits=32),
            reconsume_times=whole(fields, reconsumed, 0, bits=32),
            batch=fields.get(batch) == "true",
            body=message.body,
        )

    def must_be_possible(self) -> None:
        """Raise :class:`Refused` for what would be delivered otherwise than the producer wants: a message of a
        transaction, a delayed or timed one, a batch."""
        if not 0 < len(self.body) <= MAX_BODY_BYTES:
            raise Refused(Response.MESSAGE_ILLEGAL, f"the body has {len(self.body)} bytes")
        if len(self.properties.encode()) > MAX_USER_PROPERTIES_BYTES:
            raise Refused(Response.MESSAGE_ILLEGAL, f"the properties are longer than {MAX_USER_PROPERTIES_BYTES} bytes")
        if self.sys_flag & _TRANSACTION:
            raise Refused(Response.MESSAGE_ILLEGAL, "transactions are not supported")
        if self.sys_flag & _BATCH or self.batch:
            raise Refused(Response.MESSAGE_ILLEGAL, "batches are not supported")
        for found in _IMPOSSIBLE.finditer(self.properties):
            if found[2] not in ("", "0", "false"):
                raise Refused(Response.MESSAGE_ILLEGAL, f"{found[1]} is not supported")

    def record(
        self, *, queue_id: int, offset: int, position: int, store_ms: int, born_host: Address, store_host: Address
    ) -> bytes:
        """Return the record of this message at a place of the log and of its queue."""
        return encode(
            topic=self.topic,
            queue_id=queue_id,
            offset=offset,
            position=position,
            body=self.body,
            properties=self.properties.encode(),
            born_ms=self.born_ms,
            store_ms=store_ms,
            flag=self.flag,
            sys_flag=self.sys_flag,
            reconsume_times=self.reconsume_times,
            born_host=born_host,
            store_host=store_host,
        )


_LONG = ("topic", "queueId", "properties", "bornTimestamp", "flag", "sysFlag", "reconsumeTimes", "batch")
_SHORT = tuple(SHORT_NAMES[name] for name in _LONG)


@dataclass(slots=True)
class PendingRequest:
    """A request whose record ends at ``end``; ``answer`` is what it gets once that counts."""

    end: int
    source: str
    request: Command
    answer: Command
    deadline_ns: int

    def respond(self, env: Env, answer: Command) -> None:
        """Answer its sender, unless that wants no answer."""
        if not self.request.is_oneway:
            env.send(self.source, answer)
