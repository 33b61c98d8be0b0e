"""The readers of a broker's files: what a real broker left is whole, and each planted damage is found in its place."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.scrub import Kind
from drivers._remoting import records
from drivers._remoting.json_text import loads
from drivers.rocketmq.files import checkpoint, config, epochs, tier_layout, tier_metadata
from drivers.rocketmq.files.commit_log import CommitLog
from drivers.rocketmq.files.consume_queue import tag_hash
from drivers.rocketmq.files.store import Store
from drivers.rocketmq.files.tier_queue import TierQueue
from tests.drivers.rocketmq.real import LOG_END, MESSAGES, flip, unpack

LOG = "store/commitlog/00000000000000000000"
SECOND_LOG = "store/commitlog/00000000000000032768"
QUEUE = "store/consumequeue/T1/0/00000000000000000000"
TIER = "tier/212d6b50_DefaultCluster/broker-a/T1"
FIRST = "cfcd208400000000000000000000"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return unpack(tmp_path)


def damage(node: Path) -> list[tuple[Kind, str, int]]:
    """Of the store, with its files by the last two parts of their names."""
    return [(one.kind, "/".join(one.file.split("/")[-2:]), one.at) for one in Store(root=node / "store").look().damage]


def tier(node: Path, queue: int = 0) -> TierQueue:
    place = next(one for one in tier_layout.places(node / "tier") if one.queue_id == queue)
    found = TierQueue(place=place)
    for _ in found.read():
        pass
    return found


def test_what_a_real_broker_left_is_whole(node: Path) -> None:
    look = Store(root=node / "store").look()
    assert look.damage == [] and look.counted["messages"] == sum(MESSAGES.values()) and look.counted["queues"] == 2
    log = CommitLog(folder=node / "store/commitlog")
    found = list(log.read())
    assert (log.begin, log.end) == (0, LOG_END)
    assert [one.offset for one in found if one.queue_id == 1] == list(range(MESSAGES[1]))
    assert {one.topic for one in found} == {"T1"} and found[0].properties["TAGS"] == "Tag0"
    assert found[-1].message == 159 and found[-1].body.startswith(b"body-0159")


def test_positions_epochs_and_offsets_of_a_real_broker(node: Path) -> None:
    point, wrong = checkpoint.read(node / "store/checkpoint")
    assert point is not None and not wrong and (point.confirmed, point.queued) == (0, 62_129)
    assert epochs.read(node / "store/epochFileCheckpoint") == ([epochs.Epoch(epoch=1, start=0)], [])
    folder = node / "store/config"
    assert config.topics(config.read(folder, config.TOPICS)[0])["T1"] == 2
    stored = config.GroupOffset(group="cg1", topic="T1", queue_id=0, offset=7)
    assert config.offsets(config.read(folder, config.OFFSETS)[0]) == ([stored], [])


def test_the_tier_of_a_real_broker_is_whole_and_its_metadata_fit(node: Path) -> None:
    known, wrong = tier_metadata.segments(config.read(node / "store/config", config.TIER)[0])
    assert not wrong and len(known) == 16
    for queue, messages in MESSAGES.items():
        found = tier(node, queue)
        assert (found.damage, found.minimum, found.maximum, found.messages) == ([], 0, messages, messages)
        assert found.orphaned == 0 and not tier_metadata.against(known, found.place)


Harm = Callable[[Path], None]


def cut(name: str, size: int) -> Harm:
    return lambda node: (node / name).write_bytes((node / name).read_bytes()[:size]) and None


def patch(name: str, at: int, data: bytes) -> Harm:
    def harm(node: Path) -> None:
        content = bytearray((node / name).read_bytes())
        content[at : at + len(data)] = data
        (node / name).write_bytes(content)

    return harm


HARMS: dict[str, tuple[Harm, Kind, str, int]] = {
    "a flipped bit in a body": (lambda n: flip(n / LOG, 90), Kind.CHECKSUM, LOG, 0),
    "a flipped bit in a size": (lambda n: flip(n / LOG, 3), Kind.UNREADABLE, LOG, 0),
    "a record of another place": (lambda n: flip(n / LOG, 35), Kind.MISPLACED, LOG, 0),
    "zeros over the end of a file": (patch(LOG, 29_896, bytes(2_872)), Kind.GAP, LOG, 29_896),
    "a torn last record": (patch(SECOND_LOG, LOG_END - 32_768 - 250, bytes(250)), Kind.TORN_END, SECOND_LOG, -2),
    "a unit of another message": (patch(QUEUE, 40, bytes(7) + b"\1"), Kind.CONTRADICTION, QUEUE, 40),
    "a unit behind the end": (patch(QUEUE, 1180, struct.pack(">q", 10**9)), Kind.DANGLING, QUEUE, 1180),
    "a hole in a queue": (patch(QUEUE, 60, bytes(20)), Kind.GAP, QUEUE, 60),
    "a wrong tag": (lambda n: flip(n / QUEUE, 19), Kind.CONTRADICTION, QUEUE, 0),
    "an epoch of another log": (
        lambda n: (n / "store/epochFileCheckpoint").write_text("1\n0\n1-999999\n") and None,
        *(Kind.CONTRADICTION, "store/epochFileCheckpoint", -1),
    ),
    "a wrong CRC of epochs": (
        lambda n: (n / "store/epochFileCheckpoint").write_text("1\n7\n1-0\n") and None,
        *(Kind.CHECKSUM, "store/epochFileCheckpoint", -1),
    ),
    "an offset too far confirmed": (
        patch("store/checkpoint", 32, struct.pack(">q", 10**9)),
        *(Kind.CONTRADICTION, "store/checkpoint", 32),
    ),
    "half a file of topics": (cut("store/config/topics.json", 900), Kind.UNREADABLE, "config/topics.json", -1),
    "an entry of another chain": (
        lambda n: flip(n / "store/index/20261122171738866", 40 + 4 * 50 + 20 + 19),
        *(Kind.CONTRADICTION, "index/20261122171738866", 40 + 4 * 50 + 20),
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_damage_of_a_store_is_found_in_its_place(node: Path, name: str) -> None:
    harm, kind, file, at = HARMS[name]
    harm(node)
    found = damage(node)
    names = ("/".join(file.split("/")[-2:]), Path(file).name)
    fitting = [one for one in found if one[0] is kind and one[1] in names]
    assert fitting, found
    assert at == -2 or fitting[0][2] == at


def test_a_missing_first_file_is_retention_and_a_missing_middle_one_a_gap(node: Path) -> None:
    (node / LOG).unlink()
    assert damage(node) == []  # old files are deleted
    unpack(node)
    (node / SECOND_LOG).unlink()
    assert any(kind is Kind.GAP and file.endswith("00000000000000065536") for kind, file, _ in damage(node))


def test_records_after_damage_are_still_read(node: Path) -> None:
    flip(node / LOG, 90)
    log = CommitLog(folder=node / "store/commitlog")
    assert len(list(log.read())) == sum(MESSAGES.values()) - 1 and log.end == LOG_END


TIER_HARMS: dict[str, tuple[Harm, Kind, str]] = {
    "a flipped bit in a body": (lambda n: flip(n / f"{TIER}/0/COMMIT_LOG/{FIRST}", 90), Kind.CHECKSUM, "COMMIT_LOG"),
    "a unit of another message": (
        patch(f"{TIER}/0/CONSUME_QUEUE/{FIRST}", 40, bytes(8)),
        *(Kind.CONTRADICTION, "CONSUME_QUEUE"),
    ),
    "a torn unit": (cut(f"{TIER}/0/CONSUME_QUEUE/f39ae9ff00000000000000001800", 59), Kind.TORN_END, "CONSUME_QUEUE"),
    "a shortened log": (cut(f"{TIER}/0/COMMIT_LOG/18a24c0300000000000000031913", 1000), Kind.DANGLING, "CONSUME_QUEUE"),
    "a missing segment of the queue": (
        lambda n: (n / f"{TIER}/0/CONSUME_QUEUE/d490d7b400000000000000000600").unlink(),
        *(Kind.GAP, "CONSUME_QUEUE"),
    ),
    "a missing segment of the log": (
        lambda n: (n / f"{TIER}/0/COMMIT_LOG/a9b94e2e00000000000000008049").unlink(),
        *(Kind.DANGLING, "CONSUME_QUEUE"),
    ),
    "a name that no broker finds": (
        lambda n: (n / f"{TIER}/0/COMMIT_LOG/{FIRST}").rename(n / f"{TIER}/0/COMMIT_LOG/00000000{FIRST[8:]}") and None,
        *(Kind.MISPLACED, "COMMIT_LOG"),
    ),
    "two replicas in one folder": (  # the second one began at offset 100 of its own: it wrote from byte 2000 on
        lambda n: (n / f"{TIER}/0/CONSUME_QUEUE/08f90c1a00000000000000002000").write_bytes(bytes(20)) and None,
        *(Kind.GAP, "CONSUME_QUEUE"),
    ),
    "appended again": (
        lambda n: (
            (n / f"{TIER}/0/CONSUME_QUEUE/d490d7b400000000000000000600").write_bytes(
                (n / f"{TIER}/0/CONSUME_QUEUE/d490d7b400000000000000000600").read_bytes() * 2
            )
            and None
        ),
        *(Kind.OVERLAP, "CONSUME_QUEUE"),
    ),
}


@pytest.mark.parametrize("name", TIER_HARMS)
def test_damage_of_a_tier_is_found_in_its_place(node: Path, name: str) -> None:
    harm, kind, folder = TIER_HARMS[name]
    harm(node)
    assert any(one.kind is kind and f"/{folder}/" in one.file for one in tier(node).damage), tier(node).damage
    assert tier(node, 1).damage == []


def test_an_upload_that_broke_off_leaves_orphans_and_no_damage(node: Path) -> None:
    (node / f"{TIER}/0/CONSUME_QUEUE/f39ae9ff00000000000000001800").unlink()
    found = tier(node)
    assert found.damage == [] and found.maximum == 90 and found.orphaned == 1141


@pytest.mark.parametrize("seed", range(6))
def test_readers_end_and_raise_nothing_whatever_stands_there(node: Path, seed: int) -> None:
    """Bits flipped, files shortened, blocks exchanged, noise: in every kind of file, many places at once."""
    rng = random.Random(seed)
    files = sorted(path for path in node.rglob("*") if path.is_file())
    for _ in range(3):
        for path in files:
            data = bytearray(path.read_bytes())
            for _ in range(rng.randint(1, 8)):
                harm_bytes(rng, data)
            path.write_bytes(data)
        assert all(str(one) for one in Store(root=node / "store").look().damage)
        for queue in MESSAGES:
            assert all(str(one) for one in tier(node, queue).damage)
        known, _ = tier_metadata.segments(config.read(node / "store/config", config.TIER)[0])
        assert all(tier_metadata.against(known, place) is not None for place in tier_layout.places(node / "tier"))


def harm_bytes(rng: random.Random, data: bytearray) -> None:
    at = rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0 if data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        case 1:
            del data[at:]
        case 2:
            data[at : at + 20] = rng.randbytes(20)
        case 3:
            data[at : at + 64] = bytes(64)
        case _:
            data[at:at] = data[: rng.randrange(200)]


def test_a_log_full_of_beginnings_costs_no_more_than_its_bytes(tmp_path: Path) -> None:
    """Each of these looks like a record that reaches to the end of the file, and none has the right CRC."""
    size = 1 << 20
    data = bytearray(size)
    for at in range(0, size - 100, 91):
        body, rest = size - at - 91, 91
        head = struct.pack(">iIIiiqqiq", body + rest, records.FIRST, 1, 0, 0, 0, at, 0, 0)
        data[at : at + 88] = head + bytes(32) + struct.pack(">iqi", 0, 0, body)[: 88 - len(head) - 32]
    (tmp_path / "00000000000000000000").write_bytes(data)
    log = CommitLog(folder=tmp_path)
    assert list(log.read()) == [] and log.damage


def test_json_with_keys_that_are_numbers() -> None:
    assert loads(b'{"a":{0:"x",-1:{12 : 3}},"b":"{1:2}"}') == {"a": {"0": "x", "-1": {"12": 3}}, "b": "{1:2}"}
    for wrong in (b"{0:", b"\xff", b"[" * 100_000):
        with pytest.raises(ValueError):
            loads(wrong)


def test_a_tag_has_javas_hash() -> None:
    assert (tag_hash(""), tag_hash("TagA"), tag_hash("polygenelubricants")) == (0, 2598919, -(1 << 31))
