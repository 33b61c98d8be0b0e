"""Brokers of Kafka that say what a test wants, in Kafka's protocol, at the other end of a network of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from chaos.driver import Disconnected
from drivers.kafka import wire

#: Node, name of the request and the request to what is answered: fields of the answer, bytes as they are, or nothing.
Say = Callable[[str, str, Any], Mapping[str, Any] | bytes | None]


@dataclass
class Servers:
    """A network. A node in ``down`` refuses connections, as does each that ``say`` answers ``b""``: it closes at once.
    ``asked``: what came, by node and name."""

    say: Say
    down: Sequence[str] = ()
    asked: list[tuple[str, str]] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    dials: int = 0
    clock_ns: int = 0
    _serving: list[asyncio.Future[None]] = field(default_factory=list)

    async def dial(self, client: str, node: str, port: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if node in self.down:
            raise Disconnected("refused", sent=False)
        self.dials += 1
        ours, theirs = socket.socketpair()
        self._serving.append(asyncio.ensure_future(self._serve(node, *await asyncio.open_connection(sock=theirs))))
        return await asyncio.open_connection(sock=ours)

    async def _serve(self, node: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                data = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                number, name, request, version = wire.decode_request(data)
                self.asked.append((node, name))
                self.requests.append(request)
                answer = self.say(node, name, request)
                if answer is None:
                    await reader.read()  # until the client gives up
                    break
                if isinstance(answer, bytes):
                    writer.write(answer)
                    break
                writer.write(wire.encode_answer(name, number, answer, version))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def now_ns(self) -> int:
        self.clock_ns += 500_000_000
        return self.clock_ns


def metadata(
    leader: int = 0,
    epoch: int = 7,
    in_sync: Sequence[int] = (0, 1, 2),
    topics: str = "storm",
    partitions: int = 1,
    replicas: Sequence[int] = (0, 1, 2),
) -> Mapping[str, Any]:
    """Return what a broker knows of these topics (their names in one text), with so many partitions each."""
    known = {
        "error_code": 0,
        "leader_id": leader,
        "leader_epoch": epoch,
        "replica_nodes": list(replicas),
        "isr_nodes": list(in_sync),
    }
    parts = [{**known, "partition_index": number} for number in range(partitions)]
    found = [{"error_code": 0, "name": name, "topic_id": None, "partitions": parts} for name in topics.split()]
    return {"brokers": [], "topics": found}


def produced(code: int = 0, offset: int = 5) -> Mapping[str, Any]:
    """Return the answer to a send."""
    part = {"index": 0, "error_code": code, "base_offset": offset, "record_errors": []}
    return {"responses": [{"name": "storm", "partition_responses": [part]}]}


def fetched(records: bytes = b"", *, code: int = 0, aborted: Sequence[tuple[int, int]] = ()) -> Mapping[str, Any]:
    """Return the answer to a read: of a queue from 2 to 100, of which all up to 90 is stable."""
    part = {
        "partition_index": 0,
        "error_code": code,
        "high_watermark": 100,
        "last_stable_offset": 90,
        "log_start_offset": 2,
        "aborted_transactions": [{"producer_id": one, "first_offset": first} for first, one in aborted],
        "records": records,
    }
    return {"error_code": 0, "responses": [{"topic": "storm", "partitions": [part]}]}


def limits(request: Any, code: int = 0) -> Mapping[str, Any]:
    """Return the beginning or the end, 2 or 90, as the request asks."""
    asked = request.topics[0].partitions[0].timestamp
    part = {"partition_index": 0, "error_code": code, "offset": 90 if asked == -1 else 2}
    return {"topics": [{"name": "storm", "partitions": [part]}]}


def coordinator(node: int = 1, code: int = 0) -> Mapping[str, Any]:
    """Return who keeps a group's offsets."""
    one = {"key": "g", "node_id": node, "host": "", "port": 0, "error_code": code, "error_message": None}
    return {"coordinators": [one]}


def stored(code: int = 0) -> Mapping[str, Any]:
    """Return the answer to a commit."""
    return {"topics": [{"name": "storm", "partitions": [{"partition_index": 0, "error_code": code}]}]}


def offsets(offset: int, code: int = 0) -> Mapping[str, Any]:
    """Return a group's offset."""
    part = {"partition_index": 0, "committed_offset": offset, "metadata": "", "error_code": code}
    topics = [{"name": "storm", "partitions": [part]}]
    return {"groups": [{"group_id": "g", "topics": topics, "error_code": 0}]}


def created(code: int = 0) -> Mapping[str, Any]:
    """Return the answer to the creation of a topic."""
    one = {"name": "storm", "topic_id": None, "error_code": code, "error_message": "no", "configs": []}
    return {"topics": [one]}


def quorum(leader: int) -> Mapping[str, Any]:
    """Return who leads the controllers."""
    part = {
        "partition_index": 0,
        "error_code": 0,
        "leader_id": leader,
        "leader_epoch": 3,
        "high_watermark": 9,
        "current_voters": [],
        "observers": [],
    }
    return {"error_code": 0, "topics": [{"topic_name": "__cluster_metadata", "partitions": [part]}]}


def initialized(epoch: int = 3, code: int = 0) -> Mapping[str, Any]:
    """Return the epoch of a producer."""
    return {"error_code": code, "producer_id": 50, "producer_epoch": epoch}


def added(code: int = 0) -> Mapping[str, Any]:
    """Return that a queue belongs to a transaction."""
    part = {"partition_index": 0, "partition_error_code": code}
    return {"results_by_topic_v3_and_below": [{"name": "storm", "results_by_partition": [part]}]}


def done(code: int = 0) -> Mapping[str, Any]:
    """Return an answer that has nothing but an error."""
    return {"error_code": code}


def beaten(epoch: int, *partitions: int, code: int = 0, changes: bool = True) -> Mapping[str, Any]:
    """Return the answer to a member's heartbeat, with the partitions that it may have."""
    given = [{"topic_id": UUID(int=7), "partitions": list(partitions)}] if partitions else []
    return {
        "error_code": code,
        "member_id": "member-1",
        "member_epoch": epoch,
        "heartbeat_interval": wire.milliseconds(1),
        **({"assignment": {"topic_partitions": given}} if changes else {}),
    }


def joined(generation: int = -1, *members: str, code: int = 0) -> Mapping[str, Any]:
    """Return the answer to one that joins a group; the leader hears of all ``members``."""
    others = [{"member_id": one, "group_instance_id": None, "metadata": b""} for one in members]
    return {
        "error_code": code,
        "generation_id": generation,
        "protocol_name": "roundrobin",
        "leader": "member-1",
        "member_id": "member-1",
        "members": others,
    }


def given(*partitions: int, code: int = 0, bad: bytes | None = None) -> Mapping[str, Any]:
    """Return what a member is given in a generation; in bytes where they are ``bad``."""
    topics = [{"topic": "storm", "partitions": list(partitions)}]
    assignment = wire.pack("consumer_protocol_assignment", {"assigned_partitions": topics}) if bad is None else bad
    return {"error_code": code, "protocol_name": "roundrobin", "assignment": assignment}


def left(code: int = 0) -> Mapping[str, Any]:
    """Return the answer to a member that leaves."""
    return {"error_code": 0, "members": [{"member_id": "member-1", "group_instance_id": None, "error_code": code}]}
