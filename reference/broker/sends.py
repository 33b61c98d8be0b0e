"""Requests to send a message: what a producer asks, whether it can be had, and how it waits for its answer."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from chaos.node import Address, Env, Malformed
from reference.broker import properties
from reference.broker.parts import Refused
from reference.broker.records import MAX_BODY_BYTES, MAX_USER_PROPERTIES_BYTES, encode
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import text, whole
from reference.wire.requests import SHORT_NAMES

_TRANSACTION, _PREPARED, _BATCH = 0b1100, 0b0100, 0b1100_0000  # in a message's sysFlag
#: Properties that ask for what is not done at once, or not at all, each with its value.
_NOT_AT_ONCE = re.compile("(?:^|\x02)(DELAY|TIMER_DELAY_SEC|TIMER_DELAY_MS|TIMER_DELIVER_MS|TRAN_MSG)\x01([^\x02]*)")
_MANY_QUEUES = "INNER_MULTI_DISPATCH"
_IMPOSSIBLE = re.compile(f"(?:^|\x02)({_MANY_QUEUES})\x01([^\x02]*)")
_NONE = ("", "0", "false")
#: RocketMQ's levels of delay, from 1 on (``messageDelayLevel``), in seconds.
LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
#: No message comes later than this after it was sent: RocketMQ's ``timerMaxDelaySec``, three days.
MOST_DELAY_MS = 3 * 24 * 3600 * 1000
#: A batch has no more messages than this.
MAX_BATCH = 1024
#: How a message of a batch begins: its size, a magic number and a CRC that is not read, its flag, its body's size.
_ITEM = struct.Struct(">iiiii")


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
        names = _LONG if message.code == Request.SEND_MESSAGE else _SHORT
        topic, queue, properties, born, flag, sys_flag, reconsumed, batch = names
        return cls(
            topic=text(fields, topic),
            queue_id=whole(fields, queue),
            properties=fields.get(properties, ""),
            born_ms=whole(fields, born),
            flag=whole(fields, flag, bits=32),
            sys_flag=whole(fields, sys_flag, bits=32),
            reconsume_times=whole(fields, reconsumed, 0, bits=32),
            batch=fields.get(batch) == "true" or message.code == Request.SEND_BATCH_MESSAGE,
            body=message.body,
        )

    def must_be_possible(self) -> None:
        """Raise :class:`Refused` for what no broker here takes."""
        if not 0 < len(self.body) <= MAX_BODY_BYTES:
            raise Refused(Response.MESSAGE_ILLEGAL, f"the body has {len(self.body)} bytes")
        if len(self.properties.encode()) > MAX_USER_PROPERTIES_BYTES:
            raise Refused(Response.MESSAGE_ILLEGAL, f"the properties are longer than {MAX_USER_PROPERTIES_BYTES} bytes")
        if self.sys_flag & _BATCH:
            raise Refused(Response.MESSAGE_ILLEGAL, "batches inside a record are not supported")
        if _MANY_QUEUES in self.properties:
            self._must_not_ask(_IMPOSSIBLE)

    def must_be_at_once(self) -> None:
        """Raise :class:`Refused` for a message of a transaction, a delayed or timed one, a batch: it would be delivered
        otherwise than its producer wants."""
        if self.sys_flag & _TRANSACTION:
            raise Refused(Response.MESSAGE_ILLEGAL, "transactions are not supported")
        if self.batch:
            raise Refused(Response.MESSAGE_ILLEGAL, "batches are not supported")
        self._must_not_ask(_NOT_AT_ONCE)

    def _must_not_ask(self, expression: re.Pattern[str]) -> None:
        for found in expression.finditer(self.properties):
            if found[2] not in _NONE:
                raise Refused(Response.MESSAGE_ILLEGAL, f"{found[1]} is not supported")

    def due_ms(self, now_ms: int) -> int | None:
        """Return when the message is to come (ms since 1970; what is not later than ``now_ms`` comes at once), -1 where
        its transaction decides, None for one that comes at once. Raises :class:`Refused`."""
        at_once = not self.sys_flag & _TRANSACTION and _NOT_AT_ONCE.search(self.properties) is None
        if at_once:
            return None
        values = properties.read(self.properties.encode())
        due_ms = _timed_ms(values, now_ms)
        half = values.get(properties.HALF, "false") == "true"
        if self.sys_flag & _TRANSACTION not in (0, _PREPARED) or (self.sys_flag & _TRANSACTION and not half):
            raise Refused(Response.MESSAGE_ILLEGAL, "a half message has the flag 4 and TRAN_MSG=true")
        if not half:
            return due_ms
        if due_ms is not None:
            raise Refused(Response.MESSAGE_ILLEGAL, "a message of a transaction can't be delayed")
        if not values.get(properties.PRODUCER_GROUP):
            raise Refused(Response.MESSAGE_ILLEGAL, f"a half message needs {properties.PRODUCER_GROUP}")
        return -1

    def messages(self) -> Iterator[SendRequest]:
        """Return the messages of a batch, in order. Raises :class:`chaos.node.Malformed`."""
        at, count = 0, 0
        while at < len(self.body):
            count += 1
            if count > MAX_BATCH:
                raise Malformed(f"a batch has at most {MAX_BATCH} messages", Response.MESSAGE_ILLEGAL)
            one, at = self._message_at(at)
            yield one

    def _message_at(self, at: int) -> tuple[SendRequest, int]:
        try:
            size, _, _, flag, body_bytes = _ITEM.unpack_from(self.body, at)
            body_at = at + _ITEM.size
            names_at = body_at + body_bytes
            names_bytes = int.from_bytes(self.body[names_at : names_at + 2], "big")
            end = names_at + 2 + names_bytes
            if body_bytes < 0 or end != at + size or end > len(self.body):
                raise ValueError("its parts do not fill its size")
            names = self.body[names_at + 2 : end].decode()
        except (struct.error, ValueError) as error:
            raise Malformed(f"no message of a batch at byte {at}: {error}", Response.MESSAGE_ILLEGAL) from error
        return replace(self, body=self.body[body_at:names_at], properties=names, flag=flag, batch=False), end

    def record(
        self,
        *,
        queue_id: int,
        offset: int,
        position: int,
        store_ms: int,
        born_host: Address,
        store_host: Address,
        topic: str = "",
        more: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the record of this message at a place of the log and of its queue. ``topic``: under this one instead
        of its own; ``more``: with these properties, too."""
        named = self.properties.encode()
        return encode(
            topic=topic or self.topic,
            queue_id=queue_id,
            offset=offset,
            position=position,
            body=self.body,
            properties=properties.write({**properties.read(named), **more}) if more else named,
            born_ms=self.born_ms,
            store_ms=store_ms,
            flag=self.flag,
            sys_flag=self.sys_flag,
            reconsume_times=self.reconsume_times,
            born_host=born_host,
            store_host=store_host,
        )


def _timed_ms(values: Mapping[str, str], now_ms: int) -> int | None:
    """Return when a message with these properties is to come; None where they say nothing. Raises :class:`Refused`."""
    for name, unit_ms, since_ms in (
        (properties.DELAY_LEVEL, 0, now_ms),
        (properties.DELAY_S, 1000, now_ms),
        (properties.DELAY_MS, 1, now_ms),
        (properties.DELIVER_MS, 1, 0),
    ):
        value = values.get(name, "")
        if value in _NONE:
            continue
        if not value.isascii() or not value.isdigit() or len(value) > 18:
            raise Refused(Response.MESSAGE_ILLEGAL, f"{name} must be a whole number, not {value[:80]!r}")
        number = int(value)
        after_ms = LEVELS_S[min(number, len(LEVELS_S)) - 1] * 1000 if not unit_ms else number * unit_ms
        if since_ms + after_ms > now_ms + MOST_DELAY_MS:
            raise Refused(Response.MESSAGE_ILLEGAL, f"{name}: no message comes later than {MOST_DELAY_MS} ms from now")
        return since_ms + after_ms
    return None


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
