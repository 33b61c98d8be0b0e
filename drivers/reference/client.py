"""A client of the reference system's queues: its nodes are known by name, and each of them serves reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chaos.ops import Delivered
from drivers._remoting import client
from reference.broker import records


class QueueClient(client.QueueClient):
    """Records that it reads must match their checksums."""

    def _extra(self, node: str, source: str) -> Mapping[str, str]:
        fields = {"anyReplica": "true"} if node else {}
        return fields | ({"demandSource": source} if source else {})

    def _delivered(self, body: bytes) -> Sequence[Delivered]:
        return [
            Delivered(
                offset=one.offset, message=records.message_number(one.properties), hash=records.body_hash(one.body)
            )
            for one in records.decode_all(body)
        ]
