"""Official clients of Kafka are told addresses that lead through the proxies, in each version that they ask in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from chaos.frames import Frame

pytest.importorskip("kio")

from kio.index import load_entity_module, load_response_schema, schema_name_map
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader
from kio.static.constants import EntityType
from kio.static.primitive import i16, i32

from drivers.kafka import wire
from drivers.kafka.frames import KafkaFrames

NONE = ErrorCode(0)
NAMES = {0: "produce", 1: "fetch", 3: "metadata", 10: "find_coordinator", 60: "describe_cluster"}
REACHED = {"127.1.2.3:9092": "127.0.0.1:4001"}


def reached(address: str) -> str:
    return REACHED.get(address, address)


def asked(key: int, version: int) -> Frame:
    return Frame(data=bytes(4) + key.to_bytes(2, "big") + version.to_bytes(2, "big"))


def framed(answer: Any) -> bytes:
    return wire._frame(answer.__header_schema__(correlation_id=i32(7)), answer)


def read(key: int, version: int, data: bytes) -> Any:
    schema = load_response_schema(key, version)
    _, begin = entity_reader(schema.__header_schema__)(data[4:], 0)
    return entity_reader(schema)(data[4:], begin)[0]


def module(key: int, version: int) -> Any:
    return load_entity_module(NAMES[key], version, EntityType.response)


@pytest.mark.parametrize("version", sorted(schema_name_map["metadata"]))
def test_brokers_in_metadata_of_each_version(version: int) -> None:
    it = module(3, version)
    extra = {"topics": ()} | ({"controller_id": i32(1)} if version >= 1 else {})
    extra |= {"throttle_time": timedelta(0)} if version >= 3 else {}
    extra |= {"cluster_id": "c"} if version >= 2 else {}
    extra |= {"error_code": NONE} if version >= 13 else {}
    brokers = tuple(
        it.MetadataResponseBroker(node_id=i32(number), host=host, port=i32(9092), **({"rack": None} if version else {}))
        for number, host in enumerate(("127.1.2.3", "elsewhere"))
    )
    data = framed(it.MetadataResponse(brokers=brokers, **extra))
    moved = KafkaFrames().readdress(asked(3, version), Frame(data=data), reached)
    found = [(one.host, one.port) for one in read(3, version, moved).brokers]
    assert found == [("127.0.0.1", 4001), ("elsewhere", 9092)]
    assert KafkaFrames().readdress(asked(3, version), Frame(data=data), lambda address: address) == data


@pytest.mark.parametrize("version", [3, 4, 6])
def test_coordinators(version: int) -> None:
    it = module(10, version)
    there = {"node_id": i32(1), "host": "127.1.2.3", "port": i32(9092), "error_code": NONE, "error_message": None}
    if version < 4:
        answer = it.FindCoordinatorResponse(throttle_time=timedelta(0), **there)
    else:
        one, other = it.Coordinator(key="g", **there), it.Coordinator(key="h", **{**there, "host": "", "port": i32(-1)})
        answer = it.FindCoordinatorResponse(throttle_time=timedelta(0), coordinators=(one, other))
    moved = KafkaFrames().readdress(asked(10, version), Frame(data=framed(answer)), known)
    found = read(10, version, moved)
    places = [(one.host, one.port) for one in (found.coordinators if version >= 4 else (found,))]
    assert places == [("127.0.0.1", 4001), ("", -1)][: len(places)]


def known(address: str) -> str:
    assert address in REACHED, "an address that is none is not asked for"
    return REACHED[address]


def test_a_leader_that_a_refused_read_of_a_share_group_names() -> None:
    it = load_entity_module("share_fetch", 1, EntityType.response)
    node = it.NodeEndpoint(node_id=i32(1), host="127.1.2.3", port=i32(9092), rack=None)
    answer = it.ShareFetchResponse(
        throttle_time=timedelta(0),
        error_code=NONE,
        error_message=None,
        acquisition_lock_timeout=timedelta(0),
        responses=(),
        node_endpoints=(node,),
    )
    moved = read(78, 1, KafkaFrames().readdress(asked(78, 1), Frame(data=framed(answer)), reached))
    assert [(one.host, one.port) for one in moved.node_endpoints] == [("127.0.0.1", 4001)]


def test_a_leader_that_a_refused_read_names() -> None:
    it = module(1, 17)
    node = it.NodeEndpoint(node_id=i32(1), host="127.1.2.3", port=i32(9092), rack=None)
    answer = it.FetchResponse(
        throttle_time=timedelta(0), error_code=NONE, session_id=i32(0), responses=(), node_endpoints=(node,)
    )
    moved = read(1, 17, KafkaFrames().readdress(asked(1, 17), Frame(data=framed(answer)), reached))
    assert [(one.host, one.port) for one in moved.node_endpoints] == [("127.0.0.1", 4001)]
    assert KafkaFrames().readdress(asked(1, 12), Frame(data=b"anything"), reached) == b"anything"


def test_a_broker_seems_to_know_no_version_that_could_not_be_read() -> None:
    it = load_entity_module("api_versions", 4, EntityType.response)
    offered = ((3, 99), (1, 5), (44, 99))
    keys = tuple(it.ApiVersion(api_key=i16(key), min_version=i16(0), max_version=i16(last)) for key, last in offered)
    answer = it.ApiVersionsResponse(error_code=NONE, api_keys=keys, throttle_time=timedelta(0))
    moved = read(18, 4, KafkaFrames().readdress(asked(18, 4), Frame(data=framed(answer)), reached))
    assert [(one.api_key, one.max_version) for one in moved.api_keys] == [
        (3, max(schema_name_map["metadata"])),
        (1, 5),
        (44, 99),
    ]


def test_what_is_no_answer_is_not_taken_for_one() -> None:
    for data in (b"", bytes(4), bytes(40)):
        with pytest.raises(ValueError, match="no answer"):
            KafkaFrames().readdress(asked(3, 12), Frame(data=data), reached)
    with pytest.raises(ValueError, match="no answer"):
        KafkaFrames().readdress(asked(3, 999), Frame(data=bytes(40)), reached)
