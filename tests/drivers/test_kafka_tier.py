"""What the driver for Kafka reports of replicas' logs and of the tier, and what is judged of it, from the files that a
real cluster left.

Three brokers of 3.9.1 took some 110 messages in two partitions, a part of them in transactions, by segments of 6,000
bytes, while one of them was killed. ``broker-N/data`` are their logs, ``broker-0/tier`` is the tier of all.
"""

from __future__ import annotations

import asyncio
import tarfile
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("kio", reason="not there: pip install 'stormproof[kafka]'")

from crc32c import crc32c

from chaos.driver import Record
from chaos.ops import QueueRef
from chaos.verdict import Validity
from drivers.kafka import final_state, tier, tier_notes, wire
from tests.checkers.histories import BROKERS, REPORTED, History
from tests.checkers.names import A, L

ARCHIVE = Path(__file__).parent / "kafka_files" / "tier-3.9.1.tar.xz"
QUEUES = tuple(QueueRef(index=number, topic="storm", queue_id=number) for number in range(2))
LAWS = (L.UPLOAD_BOUND, L.TIER_CONTINUITY, L.TIER_METADATA)
META = {
    "nodes": [{"name": name, "role": "broker"} for name in BROKERS],
    "tells": sorted({*REPORTED, "tier-content", "final-logs"} - {"tier", "confirm", "roles"}),
}
#: Where partitions begin and end, and the first offset of each of their segments in the tier.
FIRST, END = 0, {0: 71, 1: 75}
SEGMENTS = {0: (0, 19, 42), 1: (0, 15, 38)}


@dataclass
class Disks:
    """Implements :class:`chaos.deployment.CanReadFiles` for a folder of each broker; ``later`` is put there when the
    tier is looked at for the second time."""

    root: Path
    later: Mapping[Path, bytes] = field(default_factory=dict)
    looks: int = 0

    async def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        home = self.root / node
        if any(tier.FOLDER in one for one in globs):
            self.looks += 1
        if self.looks == 2:
            for path, content in self.later.items():
                path.write_bytes(content)
        found = {path for one in globs for path in home.glob(one)}
        return {path.relative_to(home).as_posix(): path.stat().st_size for path in found if path.is_file()}

    async def read_file(self, node: str, path: str, begin: int = 0, length: int = 1 << 20) -> bytes:
        file = self.root / node / path
        return file.read_bytes()[begin : begin + min(length, 1000)] if file.exists() else b""

    def segment(self, queue: int, begin: int) -> Path:
        (found,) = self.root.glob(f"broker-0/tier/*/storm-{queue}-*/{begin:020}-*.log")
        return found

    @property
    def notes(self) -> list[bytes]:
        """What brokers note of the tier."""
        (file, *_) = self.root.glob(f"*/data/{tier_notes.TOPIC}-0/*.log")
        return [record.value for batch in wire.batches(file.read_bytes())[0] for record in batch.records]

    def note(self, notes: Sequence[bytes]) -> None:
        """Let them note this in place of it."""
        content = b"".join(
            number.to_bytes(8, "big") + wire.batch(b"", one, 0.0)[8:] for number, one in enumerate(notes)
        )
        for file in self.root.glob(f"*/data/{tier_notes.TOPIC}-0/*.log"):
            file.write_bytes(content)


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disks:
    monkeypatch.setattr(final_state, "RETRY_S", 0.0)
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path)  # ours; older releases of Python 3.11 know no filter
    return Disks(tmp_path)


def collected(disks: Disks, end: Mapping[int, int] | None = None, **meta: Any) -> History:
    """Return what is recorded, where partitions end at ``end``."""
    history = History(meta={**META, **meta})
    for phase in ("load", "recover"):
        history.phase(phase)
    history.recovered()
    for phase in ("drain", "collect"):
        history.phase(phase)
    ends = {queue: (FIRST, (end or END)[queue.index]) for queue in QUEUES}

    record = cast(Record, history.row)

    async def collect() -> None:
        logs = [await final_state.collect_logs(disks, broker, ends, record) for broker in BROKERS]
        await final_state.collect_tier(disks, BROKERS, ends, logs, record)

    asyncio.run(collect())
    return history


def rows(history: History, f: str) -> list[dict[str, Any]]:
    return [row for row in history.rows if row["f"] == f]


def others(history: History, *broken: str) -> None:
    """Check that the other laws are not broken."""
    for law in set(LAWS) - set(broken):
        history.expect(law, validity=Validity.VALID)


def resealed(batch: bytearray) -> bytes:
    """Return the one batch with a checksum that is right."""
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def first_batches(path: Path, count: int) -> bytes:
    """Return what so many batches take at the beginning of a file."""
    content, at = path.read_bytes(), 0
    for _ in range(count):
        at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
    return content[:at]


def test_a_whole_tier_is_valid(disks: Disks) -> None:
    history = collected(disks)
    others(history)
    assert disks.looks == 1 and not rows(history, "tier_damage")
    for queue, begins in SEGMENTS.items():
        offsets = [row["offset"] for row in rows(history, "tiered") if row["queue"] == queue]
        assert offsets == list(range(len(offsets))) and len(offsets) > begins[-1]
    assert [row["node"] for row in rows(history, "complete")] == [*BROKERS]


def test_of_transactions_only_what_was_committed_is_content(disks: Disks) -> None:
    """Markers, and messages of aborted transactions, have offsets alone."""
    history = collected(disks)
    hidden = [row for row in rows(history, "tiered") if row["hash"] < 0]
    batches = [one for path in disks.root.glob("broker-0/tier/**/*.log") for one in wire.batches(path.read_bytes())[0]]
    markers = sum(bool(one.attributes & 0x20) for one in batches)
    assert 0 < markers < len(hidden) < len(rows(history, "tiered"))
    assert all(row["message"] >= 0 for row in [*rows(history, "log"), *rows(history, "tiered")] if row["hash"] >= 0)


def test_a_segment_that_is_noted_and_not_there_is_found(disks: Disks) -> None:
    disks.segment(0, 19).unlink()
    history = collected(disks)
    history.expect(L.TIER_CONTINUITY, A.TIER_MISSING_OBJECT, A.TIER_GAP)
    others(history, L.TIER_CONTINUITY)


def test_a_segment_that_nobody_noted_is_a_gap(disks: Disks) -> None:
    """Both where the tier goes on behind it, and where only logs do."""
    names = {begin: disks.segment(0, begin).name[21:43] for begin in SEGMENTS[0]}
    every = disks.notes

    def without(*begins: int) -> History:
        gone = [urlsafe_b64decode(f"{names[begin]}==") for begin in begins]
        disks.note([one for one in every if not any(id in one for id in gone)])
        return collected(disks)

    for history in (without(19), without(19, 42)):
        history.expect(L.TIER_CONTINUITY, A.TIER_GAP)
        others(history, L.TIER_CONTINUITY)
    others(without(42))  # which is still in the logs, not copied yet


def test_a_tier_that_ends_where_all_logs_begin_or_later_is_whole(disks: Disks) -> None:
    for file in disks.root.glob("*/data/storm-0/*42.log"):
        file.unlink()
    others(collected(disks))  # logs from 64 on


def test_another_body_than_in_the_logs_is_found(disks: Disks) -> None:
    path = disks.segment(0, 42)
    batches, _ = wire.batches(path.read_bytes())
    number = next(number for number, one in enumerate(batches) if not one.attributes & 0x30)
    begin, end = len(first_batches(path, number)), len(first_batches(path, number + 1))
    content = bytearray(path.read_bytes())
    content[end - 3] ^= 1
    path.write_bytes(content[:begin] + resealed(content[begin:end]) + content[end:])
    history = collected(disks)
    history.expect(L.UPLOAD_BOUND, A.TIER_LOG_MISMATCH)
    others(history, L.UPLOAD_BOUND)


def test_a_segment_that_is_cut_off_or_damaged_is_found(disks: Disks) -> None:
    path = disks.segment(1, 15)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    history = collected(disks)
    history.expect(L.TIER_CONTINUITY, A.TIER_MISSING_OBJECT, A.TIER_GAP)
    history.expect(L.TIER_METADATA, A.METADATA_DIVERGENCE)
    history.expect(L.UPLOAD_BOUND, validity=Validity.VALID)
    flipped = bytearray(whole)
    flipped[100] ^= 1
    path.write_bytes(flipped)
    collected(disks).expect(L.TIER_CONTINUITY, A.TIER_MISSING_OBJECT, A.TIER_GAP)


def test_what_is_damaged_at_one_look_alone_was_under_way(disks: Disks) -> None:
    path = disks.segment(1, 15)
    disks.later = {path: path.read_bytes()}
    path.write_bytes(path.read_bytes()[:-5])
    history = collected(disks)
    assert disks.looks == 2
    others(history)


def test_a_file_without_a_note_is_a_copy_that_did_not_end(disks: Disks) -> None:
    """Brokers that are killed while they copy leave them, and copy again."""
    path = disks.segment(0, 19)
    path.with_name(path.name[:21] + "A" * 22 + ".log").write_bytes(path.read_bytes()[:700])
    others(collected(disks))


def copied_again(disks: Disks, change: Callable[[bytearray], None]) -> None:
    """Let another leader have copied a segment, too, which overlaps with the first copy."""
    path = disks.segment(0, 19)
    old, new = urlsafe_b64decode(f"{path.name[21:43]}=="), bytes(16)
    disks.note([*disks.notes, *(one.replace(old, new) for one in disks.notes if old in one)])
    content = bytearray(path.read_bytes())
    change(content)
    path.with_name(path.name[:21] + "A" * 22 + ".log").write_bytes(content)


def test_the_same_batches_in_two_segments_are_no_overlap(disks: Disks) -> None:
    copied_again(disks, lambda content: None)
    others(collected(disks))


def test_two_contents_of_an_offset_are_an_overlap(disks: Disks) -> None:
    def change(content: bytearray) -> None:
        end = len(first_batches(disks.segment(0, 19), 1))
        content[end - 3] ^= 1
        content[:end] = resealed(content[:end])

    copied_again(disks, change)
    collected(disks).expect(L.TIER_CONTINUITY, A.TIER_OVERLAP)


def test_a_tier_that_goes_on_where_all_logs_end_is_found(disks: Disks) -> None:
    ends = {}
    for queue, begins in SEGMENTS.items():
        for file in disks.root.glob(f"*/data/storm-{queue}/*.log"):
            if int(file.stem) > begins[-1]:
                file.unlink()
                continue
            file.write_bytes(first_batches(file, 5))
            ends[queue] = begins[-1] + sum(len(one.records) for one in wire.batches(file.read_bytes())[0])
    history = collected(disks, ends)
    history.expect(L.UPLOAD_BOUND, A.UPLOAD_BEYOND_CONFIRM)
    others(history, L.UPLOAD_BOUND)


@pytest.mark.parametrize("at", ["size", "epoch", "start"])
def test_notes_that_are_not_so_are_found(disks: Disks, at: str) -> None:
    """Of a segment's size; of the epoch of its first record; or of where it begins."""
    number = next(number for number, one in enumerate(disks.notes) if one[1] == 0 and (19).to_bytes(8, "big") in one)
    notes = disks.notes
    note = bytearray(notes[number])
    size = len(disks.segment(0, 19).read_bytes()).to_bytes(4, "big")
    begin = note.index((19).to_bytes(8, "big"))
    place = {"size": note.index(size, begin + 8) + 3, "epoch": begin + 8 + 8 + 4 + 8 + 8 + 1 + 3, "start": begin + 7}
    note[place[at]] += 1
    disks.note([*notes[:number], bytes(note), *notes[number + 1 :]])
    history = collected(disks)
    history.expect(L.TIER_METADATA, A.METADATA_DIVERGENCE)
    others(history, L.TIER_METADATA)


@pytest.mark.parametrize("bad", [b"\2\0\0", b"\1\0\1", b"\1\0", b"\1\0\0\6sto", b"\1\0\0" + b"\xff" * 12])
def test_notes_that_can_not_be_read_leave_all_unknown(disks: Disks, bad: bytes) -> None:
    disks.note([*disks.notes, bad])
    history = collected(disks)
    assert [row["f"] for row in history.rows if row["f"].startswith("tier")] == ["tier_unread"]
    for law in (L.TIER_CONTINUITY, L.TIER_METADATA):
        assert "the tier was not read" in history.expect(law, validity=Validity.UNKNOWN).why
    history.expect(L.UPLOAD_BOUND, validity=Validity.UNKNOWN)


def test_a_compressed_segment_leaves_all_unknown(disks: Disks) -> None:
    path = disks.segment(0, 19)
    end = len(first_batches(path, 1))
    content = bytearray(path.read_bytes())
    content[22] |= 1
    path.write_bytes(resealed(content[:end]) + content[end:])
    (unread,) = rows(history := collected(disks), "tier_unread")
    assert "compressed records" in unread["value"] and not rows(history, "tier_damage")
    history.expect(L.TIER_CONTINUITY, validity=Validity.UNKNOWN)


def test_without_any_note_nothing_is_known(disks: Disks) -> None:
    disks.note([])
    history = collected(disks, {0: 0, 1: 0})
    history.expect(L.UPLOAD_BOUND, validity=Validity.UNKNOWN)


def test_a_log_that_is_not_read_to_its_end_is_not_complete(disks: Disks) -> None:
    (disks.root / "broker-1/data/storm-0/00000000000000000064.log").unlink()
    history = collected(disks)
    assert [row["node"] for row in rows(history, "complete")] == ["broker-0", "broker-2"]
    history.expect(L.UPLOAD_BOUND, validity=Validity.UNKNOWN)


def test_a_log_with_a_hole_is_not_complete(disks: Disks) -> None:
    path = disks.root / "broker-1/data/storm-0/00000000000000000042.log"
    path.write_bytes(first_batches(path, 5))
    assert "broker-1" not in [row["node"] for row in rows(collected(disks), "complete")]
