"""Messages that are taken as they are, and given back so, or refused."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address

from chaos.node import NOWHERE
from chaos.ops import QueueRef
from drivers._remoting.records import Record
from drivers.reference.conformance.case import ASKER
from reference.broker.records import MAX_BODY_BYTES, MAX_USER_PROPERTIES_BYTES
from reference.broker.sends import MOST_DELAY_MS
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.requests import FORMS, SHORT_NAMES, Whole

_SEAL = b"__CRC32#\x01"
#: The host in a record that stands for none, and what follows a host in the id of a message.
NO_HOST, _POSITION = struct.pack(">4si", IPv4Address(NOWHERE[0]).packed, NOWHERE[1]), struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCase:
    """A message that is sent under a key. Its header fields are ``more`` besides the usual ones, without those that are
    None; its properties are ``properties``, and as much filler behind the key as makes them ``length`` bytes long.
    ``body`` replaces its own; ``short``: the request with short names."""

    expected: Response
    more: Mapping[str, object] = field(default_factory=dict)
    properties: str = ""
    length: int = 0
    body: bytes | None = None
    short: bool = False

    def request(self, queue: QueueRef, key: str, body: bytes) -> Command:
        start = f"{self.properties}UNIQ_KEY\x01{key}\x02"
        fields = {
            "producerGroup": ASKER,
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "bornTimestamp": 1_600_000_000_001,
            "flag": 0,
            "sysFlag": 0,
            "properties": start + ("k\x01" + "v" * (self.length - len(start) - 2) if self.length else ""),
            **self.more,
        }
        texts = {name: str(value) for name, value in fields.items() if value is not None}
        code = Request.SEND_MESSAGE
        if self.short:
            texts, code = {SHORT_NAMES[name]: value for name, value in texts.items()}, Request.SEND_MESSAGE_V2
        return Command(code=code, fields=texts, body=body if self.body is None else self.body)

    def differs(self, queue: QueueRef, key: str, body: bytes, given: Record, message_id: str, born_host: bytes) -> str:
        """Return what a reader was given otherwise than it was sent; "" for nothing. ``message_id``: what its producer
        was answered; ``born_host``: where it sent from, "" where that is unknown."""
        sent = self.request(queue, key, body)
        fields = (
            sent.fields if not self.short else {long: sent.fields.get(word, "") for long, word in SHORT_NAMES.items()}
        )
        properties = fields["properties"].encode()
        documented: Mapping[str, object] = {
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "flag": int(fields["flag"]),
            "sysFlag": int(fields["sysFlag"]),
            "bornTimestamp": int(fields["bornTimestamp"]),
            "reconsumeTimes": int(fields.get("reconsumeTimes") or 0),
            "properties": properties if properties.endswith(b"\x02") else properties + b"\x02",
            "body": sent.body,
            "msgId": message_id,
            "bornHost": born_host or given.born_host,
        }
        received: Mapping[str, object] = {
            "topic": given.topic,
            "queueId": given.queue_id,
            "flag": given.flag,
            "sysFlag": given.sys_flag,
            "bornTimestamp": given.born_ms,
            "reconsumeTimes": given.reconsumed,
            "properties": given.raw_properties.partition(_SEAL)[0],
            "body": given.body,
            "msgId": (given.store_host + _POSITION.pack(given.position)).hex().upper(),
            "bornHost": given.born_host,
        }
        return ", ".join(
            f"{name} {str(received[name])[:40]}" for name in documented if received[name] != documented[name]
        )


def _taken(**more: object) -> MessageCase:
    return MessageCase(expected=Response.SUCCESS, more=more)


def _refused(**more: object) -> MessageCase:
    return MessageCase(expected=Response.MESSAGE_ILLEGAL, more=more)


def _not_understood(**more: object) -> MessageCase:
    return MessageCase(expected=Response.INVALID_PARAMETER, more=more)


def _impossible() -> dict[str, MessageCase]:
    """Return each property that asks for what brokers can't do, or can't understand with this value."""
    names = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TRAN_MSG", "INNER_MULTI_DISPATCH")
    return {
        f"a message with the property {name}": replace(_refused(), properties=f"k\x01v\x02{name}\x01true\x02")
        for name in names
    }


def _bounds() -> dict[str, MessageCase]:
    """Return the least and the greatest of each number that a message is given back with, and what is above it."""
    found: dict[str, MessageCase] = {}
    for name in ("flag", "bornTimestamp", "reconsumeTimes"):
        kind = FORMS[Request.SEND_MESSAGE].fields[name]
        assert isinstance(kind, Whole)
        end = 1 << kind.bits - 1
        found[f"a message with the least {name}"] = _taken(**{name: -end})
        found[f"a message with the greatest {name}"] = _taken(**{name: end - 1})
        found[f"a message with {name} above the greatest"] = _not_understood(**{name: end})
    return found


MESSAGES: Mapping[str, MessageCase] = {
    **_bounds(),
    "a message without a queue": _not_understood(queueId=None),
    "a message of a queue that is not there": replace(_refused(queueId=1 << 20), expected=Response.TOPIC_NOT_EXIST),
    "a message of a topic that is not there": replace(
        _refused(topic="nobody-knows-this"), expected=Response.TOPIC_NOT_EXIST
    ),
    "a message with the longest properties": replace(_taken(), length=MAX_USER_PROPERTIES_BYTES),
    "a message with too long properties": replace(_refused(), length=MAX_USER_PROPERTIES_BYTES + 1),
    "a message with a delay of nothing": replace(_taken(), properties="DELAY\x010\x02"),
    "a message of no transaction": replace(_taken(sysFlag=1), properties="TRAN_MSG\x01false\x02"),
    "a message delayed for longer than is possible": replace(
        _refused(), properties=f"TIMER_DELAY_MS\x01{MOST_DELAY_MS + 1}\x02"
    ),
    "a message with a delay that is no number": replace(_refused(), properties="DELAY\x01soon\x02"),
    "a half message without its property": _refused(sysFlag=0b100),
    "a half message of no producers": replace(_refused(), properties="TRAN_MSG\x01true\x02"),
    "a half message that is delayed": replace(
        _refused(), properties="TRAN_MSG\x01true\x02PGROUP\x01limits\x02DELAY\x011\x02"
    ),
    "a message that ends a transaction": _refused(sysFlag=0b1000),
    "a batch whose messages can't be read": _refused(batch="true"),
    "a batch by its flag": _refused(sysFlag=0b100_0000),
    "a batch of batches by its flag": _refused(sysFlag=0b1000_0000),
    "a message without a body": replace(_refused(), body=b""),
    "a message with too long a body": replace(_refused(), body=b"x" * (MAX_BODY_BYTES + 1)),
    "a message in the short form": replace(_taken(flag=7, reconsumeTimes=3), short=True),
    "a message in the short form that was never consumed": replace(_taken(), short=True),
    "a batch in the short form whose messages can't be read": replace(_refused(batch="true"), short=True),
    **_impossible(),
}
