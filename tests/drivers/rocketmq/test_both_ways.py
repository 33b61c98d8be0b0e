"""What a store's files say of one another is compared both ways: each harm is told, and what is lawful is not."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from chaos.scrub import Kind, Look
from drivers._remoting.json_text import loads
from drivers._remoting.records import Record
from drivers.rocketmq import scrubber
from drivers.rocketmq.files.commit_log import CommitLog
from drivers.rocketmq.files.consume_queue import UNIT
from drivers.rocketmq.files.store import Store
from stormproof import cli
from tests.drivers.rocketmq import test_files
from tests.drivers.rocketmq.real import unpack

LOGS = "store/commitlog"
QUEUES = "store/consumequeue/T1"
TIER = "tier/212d6b50_DefaultCluster/broker-a"
FILE_BYTES = 1200
#: Where in a record its offset in its queue, its flags, and the time of its storing stand.
OFFSET_AT, FLAGS_AT, STORED_AT = 20, 36, 56
PREPARED, COMMITTED, ROLLED_BACK, BATCH = 0b0100, 0b1000, 0b1100, 1 << 7


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return unpack(tmp_path)


def look(node: Path) -> Look:
    return Store(root=node / "store").look()


def records(node: Path, queue: int) -> list[Record]:
    return [one for one in CommitLog(folder=node / LOGS).read() if one.queue_id == queue]


def overwrite(node: Path, position: int, data: bytes) -> None:
    """Some bytes of the commit log, whose files have 32 KiB."""
    path = node / LOGS / f"{position // 32768 * 32768:020}"
    content = bytearray(path.read_bytes())
    at = position % 32768
    content[at : at + len(data)] = data
    path.write_bytes(content)


def cut_units(node: Path, queue: int, begin: int) -> None:
    """Zeros over all units of a queue from this offset on."""
    for path in sorted((node / QUEUES / str(queue)).iterdir()):
        at = min(max(begin * UNIT.size - int(path.name), 0), FILE_BYTES)
        path.write_bytes(path.read_bytes()[:at] + bytes(FILE_BYTES - at))


def put_units(node: Path, queue: int, units: list[tuple[int, int, int]]) -> None:
    """A queue that has just these, ``(position, size, tag)``, from offset 0 on."""
    shutil.rmtree(node / QUEUES / str(queue), ignore_errors=True)
    (node / QUEUES / str(queue)).mkdir(parents=True)
    content = b"".join(UNIT.pack(*unit) for unit in units)
    (node / QUEUES / str(queue) / f"{0:020}").write_bytes(content.ljust(FILE_BYTES, b"\0"))


def put_queued(node: Path, position: int) -> None:
    path = node / "store/checkpoint"
    content = path.read_bytes()
    path.write_bytes(content[:40] + struct.pack(">q", position) + content[48:])


def change(node: Path, file: str, how: Callable[[dict[str, dict[str, object]]], object]) -> None:
    path = node / "store/config" / file
    content = loads(path.read_bytes()) if path.is_file() else {}
    assert isinstance(content, dict)
    how(content)
    path.write_text(json.dumps(content))


def put_offset(node: Path, offset: int, topic: str = "T1", queue: int = 0) -> None:
    change(node, "consumerOffset.json", lambda it: it["offsetTable"].update({f"{topic}@cg1": {str(queue): offset}}))


def forget_topic(node: Path) -> None:
    change(node, "topics.json", lambda it: it["topicConfigTable"].pop("T1"))


def second_time(node: Path, first: int) -> None:
    """The topic was deleted and made again: the messages of queue 0 from this offset on are its first ones now, and no
    message went to queue 1."""
    units = []
    for offset, record in enumerate(records(node, 0)[first:]):
        overwrite(node, record.position + OFFSET_AT, struct.pack(">q", offset))
        tag = struct.unpack_from(">q", (node / QUEUES / "0" / f"{1200:020}").read_bytes(), (first + offset) * 20 - 1188)
        units.append((record.position, record.size, tag[0]))
    put_units(node, 0, units)
    shutil.rmtree(node / QUEUES / "1")
    put_offset(node, 0)


def last_of_queue_1(node: Path, flags: int) -> None:
    """The last record of queue 1 gets these system flags, and loses its unit."""
    overwrite(node, records(node, 1)[-1].position + FLAGS_AT, struct.pack(">i", flags))
    cut_units(node, 1, 81)


Harm = Callable[[Path], object]

LACKING: Mapping[str, tuple[Harm, str, int, str]] = {
    "the last units of a queue are zeros": (
        lambda n: cut_units(n, 0, 88),
        *("T1/0/00000000000000001200", 560, "messages 88 to 92 (5) have no unit"),
    ),
    "the last units of the other queue are zeros": (
        lambda n: cut_units(n, 1, 77),
        *("T1/1/00000000000000001200", 340, "messages 77 to 81 (5) have no unit"),
    ),
    "a queue's last file is gone": (
        lambda n: (n / QUEUES / "0" / f"{1200:020}").unlink(),
        *("T1/0", 1200, "messages 60 to 92 (33) have no unit"),
    ),
    "a queue's first file is gone": (
        lambda n: (n / QUEUES / "0" / f"{0:020}").unlink(),
        *("T1/0", 0, "messages 0 to 59 (60) have no unit"),
    ),
    "a queue's last file is gone, from before the last master": (
        lambda n: (
            (n / QUEUES / "0" / f"{1200:020}").unlink(),
            (n / "store/epochFileCheckpoint").write_text("2\n0\n1-0\n2-58559\n"),
        ),
        *("T1/0", 1200, "messages 60 to 82 (23) have no unit"),
    ),
    "the last units of the last master are zeros": (
        lambda n: (cut_units(n, 0, 88), (n / "store/epochFileCheckpoint").write_text("2\n0\n1-0\n2-58559\n")),
        *("T1/0/00000000000000001200", 560, "messages 88 to 92 (5) have no unit"),
    ),
    "a queue is gone": (lambda n: shutil.rmtree(n / QUEUES / "1"), "T1/1", 0, "messages 0 to 81 (82) have no unit"),
    "the message of a committed transaction": (
        lambda n: last_of_queue_1(n, COMMITTED),
        *("T1/1/00000000000000001200", 420, "message 81 has no unit"),
    ),
    "a queue of a topic that was made again": (
        lambda n: second_time(n, 80),
        *("T1/1", 1580, "messages 79 to 81 (3) have no unit"),
    ),
    "an offset that was given twice": (
        lambda n: (overwrite(n, records(n, 1)[81].position + OFFSET_AT, struct.pack(">q", 80)), cut_units(n, 1, 81)),
        *("T1/1/00000000000000001200", 400, "message 80 has a unit that points to another record"),
    ),
}


@pytest.mark.parametrize("name", LACKING)
def test_a_record_that_was_dispatched_has_its_unit(node: Path, name: str) -> None:
    harm, file, at, text = LACKING[name]
    harm(node)
    found = [one for one in look(node).damage if one.kind is Kind.GAP]
    assert [(one.file, one.at) for one in found] == [(f"consumequeue/{file}", at)], found
    assert found[0].text.startswith(text), found


def keeps_queues_in_rocksdb(node: Path) -> None:
    shutil.rmtree(node / "store/consumequeue")
    (node / "store/consumequeue_rocksdb").mkdir()
    (node / "store/consumequeue_rocksdb/CURRENT").write_text("MANIFEST-000004\n")


def keeps_batches(node: Path) -> None:
    attributes = {"attributes": {"queue.type": "BatchCQ"}}
    change(node, "topics.json", lambda it: it["topicConfigTable"]["T1"].update(attributes))  # type: ignore[attr-defined]
    shutil.move(node / "store/consumequeue", node / "store/batchconsumequeue")


def has_deleted_old_files(node: Path) -> None:
    """A file of the commit log, and in each queue the units that pointed into it."""
    (node / LOGS / f"{0:020}").unlink()
    for queue in (0, 1):
        path = node / QUEUES / str(queue) / f"{0:020}"
        kept = [unit for unit in UNIT.iter_unpack(path.read_bytes()) if unit[0] >= 32768]
        path.write_bytes(UNIT.pack(0, (1 << 31) - 1, 0) * (60 - len(kept)) + b"".join(UNIT.pack(*one) for one in kept))


LAWFUL: Mapping[str, Harm] = {
    "the tail that dispatch had not reached at a crash": lambda n: (cut_units(n, 0, 88), put_queued(n, 58_559)),
    "a file of a queue that a truncation on rejoining deleted": lambda n: (
        (n / QUEUES / "0" / f"{1200:020}").unlink(),
        (n / "store/epochFileCheckpoint").write_text("2\n0\n1-0\n2-42494\n"),
    ),
    "a record that a truncation cut, behind new ones": lambda n: (
        (n / "store/epochFileCheckpoint").write_text("2\n0\n1-0\n2-58559\n"),
        overwrite(n, records(n, 0)[91].position + STORED_AT, struct.pack(">q", 1_795_367_849_102)),
        cut_units(n, 0, 91),
    ),
    "a message of a transaction that is prepared": lambda n: last_of_queue_1(n, PREPARED),
    "a message of a transaction that was rolled back": lambda n: last_of_queue_1(n, ROLLED_BACK),
    "a batch": lambda n: last_of_queue_1(n, BATCH),
    "old files are deleted": has_deleted_old_files,
    "a deleted topic": lambda n: (shutil.rmtree(n / QUEUES), forget_topic(n)),
    "a topic that was made again": lambda n: second_time(n, 90),
    "a topic that was made again and has no message": lambda n: (shutil.rmtree(n / QUEUES), put_offset(n, 0)),
    "queues of batches": keeps_batches,
    "queues in RocksDB": keeps_queues_in_rocksdb,
    "a group at the end of its queue": lambda n: put_offset(n, 93),
    "a group at the end of what waits for dispatch": lambda n: (
        cut_units(n, 0, 88),
        put_queued(n, 58_559),
        put_offset(n, 93),
    ),
    "a group of a deleted topic": lambda n: put_offset(n, 100_000, "T0"),
    "a group of a queue that has had no message": lambda n: put_offset(n, 0, queue=7),
    "a group of a queue whose messages are long deleted": lambda n: (
        has_deleted_old_files(n),
        put_offset(n, 900, queue=7),
    ),
    "delivery that has come to the end of its level": lambda n: change(
        n, "delayOffset.json", lambda it: it.update(offsetTable={"3": 0})
    ),
}


@pytest.mark.parametrize("name", LAWFUL)
def test_what_is_lawful_is_no_damage(node: Path, name: str) -> None:
    LAWFUL[name](node)
    assert look(node).damage == []


def test_what_may_be_lawful_is_a_note(node: Path) -> None:
    assert look(node).notes == []
    put_offset(node, 0)
    shutil.rmtree(node / QUEUES)
    assert look(node).notes == ["topic T1 has no queue, but the commit log has 175 records of one that was called so"]
    unpack(node)
    forget_topic(node)
    assert look(node).notes == ["config/topics.json doesn't know T1, of which there are queues with messages"]
    keeps_queues_in_rocksdb(node)
    (note,) = look(node).notes
    assert "RocksDB, which is not read" in note


BEYOND: Mapping[str, tuple[Harm, str, str]] = {
    "far behind the end": (
        lambda n: put_offset(n, 100_000),
        *("consumerOffset.json", "group cg1 goes on at offset 100000 of T1/0, which ends at 93"),
    ),
    "one behind the end": (
        lambda n: put_offset(n, 83, queue=1),
        *("consumerOffset.json", "group cg1 goes on at offset 83 of T1/1, which ends at 82"),
    ),
    "in a queue that has had no message": (
        lambda n: put_offset(n, 1, queue=7),
        *("consumerOffset.json", "group cg1 goes on at offset 1 of T1/7, which ends at 0"),
    ),
    "in a topic whose queues are gone": (
        lambda n: shutil.rmtree(n / QUEUES),
        *("consumerOffset.json", "group cg1 goes on at offset 7 of T1/0, which ends at 0"),
    ),
    "of delayed messages": (
        lambda n: change(n, "delayOffset.json", lambda it: it.update(offsetTable={"3": 5})),
        *("delayOffset.json", "the delivery of delayed messages goes on at offset 5 of SCHEDULE_TOPIC_XXXX/2, which"),
    ),
}


@pytest.mark.parametrize("name", BEYOND)
def test_no_offset_lies_behind_the_end_of_its_queue(node: Path, name: str) -> None:
    harm, file, text = BEYOND[name]
    harm(node)
    (found,) = look(node).damage
    assert (found.kind, found.file) == (Kind.CONTRADICTION, f"config/{file}") and found.text.startswith(text), found


def test_a_light_queue_points_to_records_that_name_it(node: Path) -> None:
    first = records(node, 0)[0]
    light = node / "store/consumequeue/%LMQ%a/0"
    light.mkdir(parents=True)
    (light / f"{0:020}").write_bytes(UNIT.pack(first.position, first.size, 0).ljust(FILE_BYTES, b"\0"))
    assert [one.kind for one in look(node).damage] == [Kind.CONTRADICTION]
    place = first.end - len(first.raw_properties)
    named = b"INNER_MULTI_DISPATCH\x01%LMQ%b,%LMQ%a\x02X\x01"
    rest = first.raw_properties[first.raw_properties.index(b"CLUSTER") - 1 :]
    overwrite(node, place, named.ljust(len(first.raw_properties) - len(rest), b"-") + rest)
    assert look(node).damage == []


def of_tier(node: Path) -> tuple[list[str], list[str]]:
    """Damage and notes of the store and its tier together."""
    looks = [piece.look() for piece in scrubber.RocketMQScrubber().pieces(node) or ()]
    return [str(one) for found in looks for one in found.damage], [note for found in looks for note in found.notes]


@pytest.mark.parametrize(("folder", "pieces"), [("T1/1", 7), ("rmq_sys_INDEX/0", 3)])
def test_what_the_metadata_know_is_in_the_tier(node: Path, folder: str, pieces: int) -> None:
    assert of_tier(node) == ([], [])
    shutil.rmtree(node / TIER / folder)
    damage, _ = of_tier(node)
    assert len(damage) == pieces and all(f"broker-a/{folder}: " in one and "not in the tier" in one for one in damage)


def test_a_segment_of_the_tiers_index_has_the_size_that_the_metadata_give_it(node: Path) -> None:
    path = node / TIER / "rmq_sys_INDEX/0/INDEX/cfcd208400000000000000000000"
    path.write_bytes(path.read_bytes()[:1000])
    (found,) = of_tier(node)[0]
    assert "the metadata give it 3172 bytes, it has 1000" in found


def test_a_queue_of_the_tier_that_was_deleted_or_begun_is_no_damage(node: Path) -> None:
    def every(value: Mapping[str, int]) -> Harm:
        def change_all(it: dict[str, dict[str, dict[str, dict[str, int]]]]) -> None:
            for table in ("commitLogFileSegmentTable", "consumeQueueFileSegmentTable"):
                for entry in it[table]["broker-a/T1/1"].values():
                    entry.update(value)

        return lambda n: change(n, "tieredStoreMetadata.json", change_all)  # type: ignore[arg-type]

    shutil.rmtree(node / TIER / "T1/1")
    for value in ({"status": 2}, {"size": 0}):
        every(value)(node)
        assert of_tier(node) == ([], [])


def test_a_queue_of_the_tier_that_no_store_knows_is_a_note(node: Path) -> None:
    change(
        node,
        "tieredStoreMetadata.json",
        lambda it: (
            [table.pop("broker-a/T1/1") for name, table in it.items() if name.endswith("QueueFileSegmentTable")]
            + [it["commitLogFileSegmentTable"].pop("broker-a/T1/1")]
        ),
    )
    assert of_tier(node) == ([], ["no store here knows of it; a topic that is being deleted leaves such a queue"])


@pytest.mark.parametrize(
    "name", ["the last units of a queue are zeros", "a queue's last file is gone", "a queue is gone"]
)
def test_the_command_tells_what_has_no_unit(node: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    LACKING[name][0](node)
    assert cli._run(["scrub", "--wait", "0", str(node / "store")]) == 1
    assert "have no unit" in capsys.readouterr().out


def test_the_command_tells_an_offset_behind_the_end(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_offset(node, 100_000)
    assert cli._run(["scrub", "--wait", "0", str(node / "store")]) == 1
    assert "offset 100000 of T1/0, which ends at 93" in " ".join(capsys.readouterr().out.split())


#: What is compared with what, in this direction and back: a test, or why nothing can be said.
COMPARISONS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("unit of a queue", "record of the commit log"): (
        "test_damage_of_a_store_is_found_in_its_place",
        "test_a_record_that_was_dispatched_has_its_unit",
    ),
    ("unit of a light queue", "record of the commit log"): (
        "test_a_light_queue_points_to_records_that_name_it",
        "no: a record names its offsets there in a form that differs between releases",
    ),
    ("unit of a batch queue, or one in RocksDB", "record of the commit log"): (
        "no: these files are not read; test_what_may_be_lawful_is_a_note",
        "no: these files are not read; test_what_is_lawful_is_no_damage",
    ),
    ("offset of a group", "end of its queue"): (
        "test_no_offset_lies_behind_the_end_of_its_queue",
        "no: a queue need not have a group, and a group may begin anywhere",
    ),
    ("delivery of delayed messages", "end of its level's queue"): (
        "test_no_offset_lies_behind_the_end_of_its_queue",
        "no: messages wait there for their time",
    ),
    ("queue", "topic"): (
        "test_what_may_be_lawful_is_a_note",
        "test_what_may_be_lawful_is_a_note",
    ),
    ("group of an offset", "topic"): (
        "no: offsets of deleted topics are deleted later; test_what_is_lawful_is_no_damage",
        "no: a topic need not have a group",
    ),
    ("entry of the index", "record of the commit log"): (
        "no: a truncation on rejoining leaves the index as it is",
        "no: what is written where a truncation cut is not indexed before the log is longer than it was",
    ),
    ("file of a series", "the one before it"): (
        "test_a_missing_first_file_is_retention_and_a_missing_middle_one_a_gap",
        "test_a_missing_first_file_is_retention_and_a_missing_middle_one_a_gap",
    ),
    ("epoch", "commit log"): (
        "test_damage_of_a_store_is_found_in_its_place",
        "no: what was written before the controller mode belongs to no epoch",
    ),
    ("confirm offset of the checkpoint", "commit log"): (
        "test_damage_of_a_store_is_found_in_its_place",
        "no: the checkpoint is written late",
    ),
    ("unit of the tier", "record of the tier"): (
        "test_damage_of_a_tier_is_found_in_its_place",
        "no: an upload that broke off leaves records; test_an_upload_that_broke_off_leaves_orphans_and_no_damage",
    ),
    ("segment in the metadata", "segment in the tier"): (
        "test_what_the_metadata_know_is_in_the_tier",
        "test_a_queue_of_the_tier_that_no_store_knows_is_a_note",
    ),
    ("message of the tier", "message of the store"): (
        "no: a tier outlives the stores that were uploaded to it",
        "no: a store may have been without a tier, and a tier deletes what is old",
    ),
}


@pytest.mark.parametrize("pair", COMPARISONS, ids=" - ".join)
def test_each_comparison_is_made_both_ways_or_says_why_not(pair: tuple[str, str]) -> None:
    tests = {name for name in [*globals(), *vars(test_files)] if name.startswith("test_")}
    for cell in COMPARISONS[pair]:
        named = {word.strip(";:,.") for word in cell.split() if word.startswith("test_")}
        assert named <= tests, named - tests
        assert named or (cell.startswith("no: ") and len(cell) > 20), cell
