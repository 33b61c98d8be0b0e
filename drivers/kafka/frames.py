"""What clients ask of Kafka, for faults on requests of a kind: frames with their length in front, answered in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaos.addresses import Reached
from chaos.frames import Frame, Framing
from drivers.kafka import addresses, wire

#: By Kafka's number of a request: what it is called. Those that are one operation of a client are called as that is.
_KINDS = {
    0: "send",
    1: "pull",
    2: "bounds",
    3: "metadata",
    8: "commit",
    9: "committed",
    10: "coordinator",
    11: "join",
    12: "heartbeat",
    13: "leave",
    14: "sync",
    22: "take_over",
    24: "add_queues",
    25: "add_offsets",
    26: "end",
    28: "commit_offsets",
    68: "member_heartbeat",
    76: "share_heartbeat",
    78: "pop",
    79: "ack",
}
#: How long a frame may say that it is, and what stands before a client's name in a request.
_MOST_BYTES, _HEAD_BYTES = 256 * 2**20, 12
#: Errors after which surely nothing has happened: too few replicas are in sync, a coordinator is not ready yet.
_TOO_FEW, _LOADING = 19, 14
_ACKS_NONE = 0


def frames(port: str) -> KafkaFrames | None:
    """Return who reads one connection; None at the port where controllers vote."""
    return KafkaFrames() if port in ("", "kafka") else None


FRAMING = Framing(reader=f"{__name__}:{frames.__name__}", kinds=tuple(_KINDS.values()))


class KafkaFrames:
    """Implements :class:`chaos.frames.Readdresses`."""

    def requests(self, buffer: bytearray) -> list[Frame]:
        return [self._request(data) for data in _split(buffer)]

    def answers(self, buffer: bytearray, *, ended: bool) -> list[Frame]:
        return [Frame(data=data) for data in _split(buffer)]

    def refusal(self, request: Frame) -> bytes:
        """Make an error answer to a request in the version in which this driver's clients ask. Others are left alone:
        whose answers look otherwise, and all where kio is not installed."""
        try:
            number, name, asked, version = wire.decode_request(request.data[4:])
            made = _ERRORS[name]
        except (ValueError, LookupError, ImportError):
            return b""
        return wire.encode_answer(name, number, made(asked), version)

    def readdress(self, request: Frame | None, answer: Frame, reached: Reached) -> bytes:
        return answer.data if request is None else addresses.readdress(request.data, answer.data, reached)

    @staticmethod
    def _request(data: bytes) -> Frame:
        if len(data) < _HEAD_BYTES:
            raise ValueError("too short for a request of Kafka's")
        kind = _KINDS.get(int.from_bytes(data[4:6], "big"), "")
        return Frame(data=data, kind=kind, paired=kind != "send" or _is_answered(data))


def _is_answered(data: bytes) -> bool:
    """Return whether a send wants an answer; one in a version that can't be read here most probably does."""
    try:
        return bool(wire.decode_request(data[4:])[2].acks != _ACKS_NONE)
    except (ValueError, ImportError):
        return True


def _split(buffer: bytearray) -> list[bytes]:
    found: list[bytes] = []
    while len(buffer) >= 4:
        size = int.from_bytes(buffer[:4], "big")
        if size > _MOST_BYTES:
            raise ValueError("this is not Kafka's protocol")
        if len(buffer) < 4 + size:
            break
        found.append(bytes(buffer[: 4 + size]))
        del buffer[: 4 + size]
    return found


def _of_partitions(topics: str, partitions: str, part: Mapping[str, Any], asked: Any) -> Mapping[str, Any]:
    """Return the answer to a request about partitions: ``part`` for each of them. ``topics`` and ``partitions`` are
    what the answer calls them."""
    number = "index" if partitions == "partition_responses" else "partition_index"
    found = [
        {
            "name": topic.name,
            partitions: [{number: getattr(one, number), **part} for one in _partitions_of(topic)],
        }
        for topic in (asked.topic_data if hasattr(asked, "topic_data") else asked.topics)
    ]
    return {topics: found}


def _partitions_of(topic: Any) -> Any:
    return topic.partition_data if hasattr(topic, "partition_data") else topic.partitions


_Made = Callable[[Any], Mapping[str, Any]]
_ERRORS: Mapping[str, _Made] = {
    "produce": lambda asked: _of_partitions(
        "responses", "partition_responses", {"error_code": _TOO_FEW, "base_offset": -1, "record_errors": []}, asked
    ),
    "offset_commit": lambda asked: _of_partitions("topics", "partitions", {"error_code": _LOADING}, asked),
    "txn_offset_commit": lambda asked: _of_partitions("topics", "partitions", {"error_code": _LOADING}, asked),
    "init_producer_id": lambda asked: {"error_code": _LOADING, "producer_id": -1, "producer_epoch": -1},
    "add_offsets_to_txn": lambda asked: {"error_code": _LOADING},
    "end_txn": lambda asked: {"error_code": _LOADING},
}
