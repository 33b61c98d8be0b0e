"""Which kinds of records the log of a group may hold, so that replicas of an older version can still read it.

Version 1 has messages, topics and consumer offsets. Version 2 has what :mod:`reference.broker.deferred` and
:mod:`reference.broker.locks` say, too. A replica names the newest version that it reads when it begins to follow
(``version``; one that names none reads version 1). A master writes the first record of a newer version when it is
asked for one and the whole SyncStateSet follows it and reads it; a record of its own before that says so. From then on
a replica that reads less is refused: it would stop at what it can't read, or pass over it. Until then such requests are
refused, and an upgrade can go back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.node import Env
from reference.broker.parts import Refused
from reference.broker.producer_requests import ProducerRequests
from reference.broker.queues import Effect, Queues
from reference.broker.records import OFFSET_RECORDS, SYSTEM, TOPIC_RECORDS, Record
from reference.broker.replication import Replication
from reference.wire.codes import Request, Response
from reference.wire.command import Command


class FirstReplication(Replication):
    """A broker as it was before version 2 ..."""

    def log_version(self) -> int:
        return 1


class FirstQueues(Queues):
    """... which can't go on behind a record that it does not know ..."""

    def add(self, record: Record) -> Effect:
        if record.topic in SYSTEM and record.topic not in (TOPIC_RECORDS, OFFSET_RECORDS):
            raise KeyError(record.topic)
        return super().add(record)


class FirstProducerRequests(ProducerRequests):
    """... and takes single messages alone."""

    def send(self, env: Env, source: str, message: Command) -> None:
        if message.code == Request.SEND_BATCH_MESSAGE:
            raise Refused(Response.REQUEST_CODE_NOT_SUPPORTED, f" request type {message.code} not supported")
        super().send(env, source, message)


_FIRST: Mapping[str, type] = {
    "replication": FirstReplication,
    "queues": FirstQueues,
    "producer_requests": FirstProducerRequests,
}


def parts_of(options: Mapping[str, Any]) -> dict[str, type]:
    """Return the parts of a broker with this option ``log_version``."""
    return dict(_FIRST) if options.get("log_version", 2) == 1 else {}
