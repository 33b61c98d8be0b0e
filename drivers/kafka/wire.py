"""Kafka's requests and answers as bytes, by kio's classes, which are made from Kafka's own schema.

kio is an extra, and loaded when the first request is made. Requests are given as plain values: a mapping for each
entity of the schema, by the names that kio gives to fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from importlib.util import find_spec
from io import BytesIO
from typing import Any, get_args

from chaos.errors import BadInput
from chaos.recipe import MISSING

#: Each request that is made: its version, one that Kafka 3.9 and 4.x take; and where the answer to a question about one
#: thing has what it says of that.
REQUESTS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "produce": (9, ("responses", "partition_responses")),
    "fetch": (12, ("responses", "partitions")),
    "list_offsets": (7, ("topics", "partitions")),
    "metadata": (12, ()),
    "find_coordinator": (4, ("coordinators",)),
    "offset_commit": (9, ("topics", "partitions")),
    "offset_fetch": (8, ("groups", "topics", "partitions")),
    "create_topics": (7, ("topics",)),
    "describe_quorum": (1, ("topics", "partitions")),
    "elect_leaders": (2, ("replica_election_results", "partition_result")),
    "alter_partition_reassignments": (0, ("responses", "partitions")),
    "init_producer_id": (4, ()),
    "add_partitions_to_txn": (3, ("results_by_topic_v3_and_below", "results_by_partition")),
    "add_offsets_to_txn": (3, ()),
    "txn_offset_commit": (3, ("topics", "partitions")),
    "end_txn": (3, ()),
    "consumer_group_heartbeat": (0, ()),
    "join_group": (9, ()),
    "sync_group": (5, ()),
    "heartbeat": (4, ()),
    "leave_group": (5, ("members",)),
}
#: The versions in which a transactional producer asks brokers that bump its epoch with each transaction (KIP-890).
BUMPING: Mapping[str, int] = {"produce": 12, "txn_offset_commit": 5, "end_txn": 5}
EXTRA = f"the driver kafka speaks Kafka's protocol by kio, which {MISSING}: pip install 'stormproof[kafka]'"
#: Bits of a batch's attributes.
_COMPRESSED, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
#: Where a batch has its length and the low byte of its attributes, and what its length does not count.
_LENGTH_AT, _ATTRIBUTES_AT, _BATCH_HEAD = 8, 22, 12
#: The type of a marker that ends a transaction without effect, within the marker's key.
_ABORT = bytes(2)


class BadAnswer(ValueError):
    """Bytes of an answer that make no sense."""


class Compressed(BadAnswer):
    """Records that make sense, but not to this driver."""


@dataclass(frozen=True, slots=True)
class Message:
    """One record that clients may see."""

    offset: int
    key: bytes
    body: bytes


def require() -> None:
    """Raise :class:`BadInput` unless kio is installed."""
    if find_spec("kio") is None:
        raise BadInput(EXTRA)


def milliseconds(seconds: float) -> timedelta:
    """Return a time as requests hold it."""
    return timedelta(milliseconds=round(seconds * 1e3))


def encode(name: str, number: int, client: str, values: Mapping[str, Any], version: int = 0) -> bytes:
    """Return the frame of a request: its length, header and body; ``version`` in place of what :data:`REQUESTS` has."""
    schema = _schema(name, "request", version)
    header = schema.__header_schema__(
        request_api_key=schema.__api_key__,
        request_api_version=schema.__version__,
        correlation_id=number,
        client_id=client,
    )
    return _frame(header, _entity(schema, values))


def decode(name: str, number: int, data: bytes, version: int = 0) -> Any:
    """Return the answer to the request of this number, as kio's entity. Raises :class:`BadAnswer`."""
    from kio.serial import entity_reader as read

    schema = _schema(name, "response", version)
    try:
        header, begin = read(schema.__header_schema__)(data, 0)
        answer, size = read(schema)(data, begin)
    except Exception as error:  # kio has errors of many kinds for bytes that are no answer
        raise BadAnswer(f"no answer to {name}: {error}") from error
    if header.correlation_id != number or begin + size != len(data):
        raise BadAnswer(f"the answer to another request than this {name}")
    return answer


def decode_request(data: bytes) -> tuple[int, str, Any, int]:
    """Return a request's number, name, content and version; ``data`` begins behind the frame's length. Raises
    :class:`BadAnswer` for one in a version that is never asked in here, and ``ImportError`` without kio."""
    from kio.index import api_key_map
    from kio.schema.request_header.v2 import RequestHeader
    from kio.serial import entity_reader as read

    key, version = int.from_bytes(data[:2], "big"), int.from_bytes(data[2:4], "big")
    name = api_key_map.get(key, "")
    if version not in (REQUESTS.get(name, (None,))[0], BUMPING.get(name)):
        raise BadAnswer(f"a request {key} of version {version}")
    try:
        header, begin = read(RequestHeader)(data, 0)
        return header.correlation_id, name, read(_schema(name, "request", version))(data, begin)[0], version
    except Exception as error:  # as below
        raise BadAnswer(f"no request: {error}") from error


def encode_answer(name: str, number: int, values: Mapping[str, Any], version: int = 0) -> bytes:
    """Return the frame of an answer; it has not been held up."""
    schema = _schema(name, "response", version)
    known = {"throttle_time": milliseconds(0)} if "throttle_time" in _classes(schema) else {}
    return _frame(schema.__header_schema__(correlation_id=number), _entity(schema, {**known, **values}))


def pack(name: str, values: Mapping[str, Any]) -> bytes:
    """Return what members of a group write to one another, in its first version, which stands in front."""
    return bytes(2) + _written(_entity(_schema(name, "data"), values))


def unpack(name: str, data: bytes) -> Any:
    """Return what :func:`pack` wrote, or a newer client, whose additions are left out. Raises :class:`BadAnswer`."""
    from kio.serial import entity_reader as read

    try:
        return read(_schema(name, "data"))(data, 2)[0]
    except Exception as error:  # as above
        raise BadAnswer(f"no {name}: {error}") from error


def changed(key: int, version: int, data: bytes, change: Callable[[Any], Any]) -> bytes:
    """Return the frame of an answer with what ``change`` makes of its content, which is the same object where nothing
    is changed. Raises :class:`BadAnswer` for one that can't be read."""
    from kio.index import load_response_schema
    from kio.serial import entity_reader as read

    try:
        schema = load_response_schema(key, version)
        header, begin = read(schema.__header_schema__)(data[4:], 0)
        answer, size = read(schema)(data[4:], begin)
        made = change(answer)
        whole = begin + size == len(data) - 4
    except Exception as error:  # as above
        raise BadAnswer(f"no answer to a request {key} of version {version}: {error}") from error
    if not whole:
        raise BadAnswer(f"no answer to a request {key} of version {version}: bytes are left")
    return data if made is answer else _frame(header, made)


def newest_version(key: int) -> int:
    """Return the newest version of a request, by Kafka's number of it, that can be read."""
    from kio.index import api_key_map, schema_name_map

    return max(schema_name_map[api_key_map[key]])


def _frame(*entities: Any) -> bytes:
    """Return the length of these, and what they are in bytes."""
    data = _written(*entities)
    return len(data).to_bytes(4, "big") + data


def _written(*entities: Any) -> bytes:
    from kio.serial import entity_writer as write

    buffer = BytesIO()
    for one in entities:
        write(type(one))(buffer, one)
    return buffer.getvalue()


@cache
def _schema(name: str, kind: str, version: int = 0) -> Any:
    from kio.index import load_entity_schema
    from kio.static.constants import EntityType

    return load_entity_schema(name, version or REQUESTS.get(name, (0,))[0], EntityType[kind])


def _entity(schema: Any, values: Mapping[str, Any]) -> Any:
    """Return an entity of this class, and within it those of the classes that its fields are declared with."""
    classes = _classes(schema)
    return schema(**{name: _value(classes[name], value) for name, value in values.items()})


def _value(schema: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return _entity(schema, value)
    if isinstance(value, int) and schema is not None:
        return schema(value)
    return tuple(_value(schema, one) for one in value) if isinstance(value, (list, tuple)) else value


@cache
def _classes(schema: Any) -> Mapping[str, Any]:
    """Return the class of what each field holds, by its name: an entity's, or that of errors; None for plain values."""
    return {one.name: next(filter(_is_made, _parts(one.type)), None) for one in fields(schema)}


def _is_made(part: Any) -> bool:
    return is_dataclass(part) or (isinstance(part, type) and issubclass(part, Enum))


def _parts(hint: Any) -> Iterator[Any]:
    yield hint
    for part in get_args(hint):
        yield from _parts(part)


@dataclass(frozen=True, slots=True)
class Producer:
    """A producer as Kafka numbers it: its id, its epoch, and the number of a batch in its queue; or one that it does
    not number. ``is_open``: the batch belongs to its transaction."""

    id: int = -1
    epoch: int = -1
    sequence: int = -1
    is_open: bool = False


def batch(key: bytes, body: bytes, now_s: float, by: Producer = Producer()) -> bytes:
    """Return the records of a send: one message in a batch of its own."""
    from kio.records.schema import NewRecordBatch, Record
    from kio.records.writers import write_new_batch

    now = datetime.fromtimestamp(now_s, UTC)
    record = Record(attributes=0, timestamp=now, offset=0, key=key, value=body, headers=())
    made = NewRecordBatch(
        producer_id=by.id,
        producer_epoch=by.epoch,
        partition_leader_epoch=-1,
        base_sequence=by.sequence,
        records=(record,),
        attributes=_TRANSACTIONAL if by.is_open else 0,
    )
    buffer = BytesIO()
    write_new_batch(buffer, made)
    return buffer.getvalue()


def messages(data: bytes, aborted: Iterable[tuple[int, int]] = ()) -> tuple[list[Message], int]:
    """Return the messages of a read and the offset behind its last batch, -1 without any. Markers of transactions are
    no messages, nor is what belongs to the ``aborted`` ones: the first offset and the producer of each. What is cut off
    at the end is left out. Raises :class:`BadAnswer` for batches that can't be read."""
    found: list[Message] = []
    following, waiting, gone = -1, sorted(aborted, reverse=True), set()
    for one in batches(data)[0]:
        following = one.base_offset + one.last_offset_delta + 1
        while waiting and waiting[-1][0] < following:
            gone.add(waiting.pop()[1])
        if one.attributes & _CONTROL:
            if _aborts(one):
                gone.discard(one.producer_id)
        elif not (one.attributes & _TRANSACTIONAL and one.producer_id in gone):
            found += map(_message, one.records)
    return found, following


@dataclass(frozen=True, slots=True)
class Stored:
    """What a log holds at an offset, and the epoch of the leader that appended it. ``message`` is None for what readers
    are not given: a marker, or what belongs to a transaction that was aborted, or has not ended."""

    offset: int
    epoch: int
    message: Message | None


def stored(log: Sequence[Any]) -> list[Stored]:
    """Return what the batches of a log hold, which are in their order and go on to where the transactions in them
    end."""
    found: list[Stored] = []
    committed: dict[int, bool] = {}
    for one in reversed(log):
        is_given = not one.attributes & _TRANSACTIONAL or committed.get(one.producer_id, False)
        if one.attributes & _CONTROL:
            committed[one.producer_id], is_given = not _aborts(one), False
        found += [
            Stored(record.offset, one.partition_leader_epoch, _message(record) if is_given else None)
            for record in reversed(one.records)
        ]
    return found[::-1]


def _message(record: Any) -> Message:
    return Message(record.offset, record.key or b"", record.value or b"")


def _aborts(marker: Any) -> bool:
    return bool(marker.records and (marker.records[0].key or b"")[2:4] == _ABORT)


def batches(data: bytes) -> tuple[list[Any], int]:
    """Return kio's batches, and how many bytes they take: what is cut off at the end is left out. Raises
    :class:`BadAnswer` for batches that can't be read."""
    from kio.records.readers import read_batch

    found: list[Any] = []
    at = 0
    while len(data) - at >= _BATCH_HEAD:
        size = _BATCH_HEAD + int.from_bytes(data[at + _LENGTH_AT : at + _BATCH_HEAD], "big", signed=True)
        if size <= _BATCH_HEAD or at + size > len(data):
            break
        if size > _ATTRIBUTES_AT and data[at + _ATTRIBUTES_AT] & _COMPRESSED:
            raise Compressed("compressed records, which this driver does not read")
        try:
            one, _ = read_batch(data[at : at + size], 0)
        except Exception as error:  # as above
            raise BadAnswer(f"damaged records: {error}") from error
        found.append(one)
        at += size
    return found, at
