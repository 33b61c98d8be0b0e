"""What the driver tells of a broker's tier, from the files that a real one left."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import DeploymentError
from chaos.ops import QueueRef
from drivers.rocketmq import tier_state
from drivers.rocketmq.files.consume_queue import UNIT
from tests.drivers.rocketmq.real import MESSAGES, flip, unpack

QUEUES = tuple(QueueRef(index=number + 5, topic="T1", queue_id=number) for number in MESSAGES)


@dataclass
class Disk:
    """Implements :class:`chaos.deployment.CanReadFiles` for one folder; ``mended`` is given back after the first look
    at it."""

    root: Path
    mended: Mapping[Path, bytes] = field(default_factory=dict)
    looks: int = 0
    holder: str = "broker-0"

    async def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        of_tier = globs == tier_state.FILES
        if node != (self.holder if of_tier else "broker-0"):
            raise DeploymentError(f"there is no node {node!r}")
        self.looks += of_tier
        if self.looks == 2:
            for path, content in self.mended.items():
                path.write_bytes(content)
        found = {path for pattern in globs for path in self.root.glob(pattern.replace("**", "**/*"))}
        return {path.relative_to(self.root).as_posix(): path.stat().st_size for path in found if path.is_file()}

    async def read_file(self, node: str, path: str, begin: int = 0, length: int = 1 << 20) -> bytes:
        return (self.root / path).read_bytes()[begin : begin + min(length, 1000)]


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    monkeypatch.setattr(tier_state, "AGAIN_S", 0.0)
    return Disk(unpack(tmp_path))


def told(disk: Disk, node: str = "broker-0", holder: str = "") -> dict[str, list[dict[str, Any]]]:
    """The rows by what they are."""
    rows: dict[str, list[dict[str, Any]]] = {}

    def record(kind: str, **columns: Any) -> int:
        assert kind == "final" and columns["node"] == node
        rows.setdefault(columns["f"], []).append(columns)
        return 0

    asyncio.run(tier_state.collect_tier(disk, node, QUEUES, record, holder=holder))
    return rows


def test_a_whole_tier_is_told_message_by_message(disk: Disk) -> None:
    rows = told(disk)
    assert disk.looks == 1 and set(rows) == {"tiered", "tier_queue"}
    for number, count in MESSAGES.items():
        assert [one["offset"] for one in rows["tiered"] if one["queue"] == number + 5] == list(range(count))
    assert [one["value"] for one in rows["tier_queue"]] == [{"minimum": 0, "maximum": one} for one in MESSAGES.values()]
    assert all(one["hash"] >= 0 and one["message"] >= 0 for one in rows["tiered"])


def test_a_tier_that_brokers_share_is_read_where_it_is(disk: Disk) -> None:
    own, disk.holder = told(disk), "nameserver-0"
    assert set(told(disk)) == {"tier_unread"} and told(disk, holder="nameserver-0") == own


def test_damage_is_told_when_two_looks_find_it(disk: Disk) -> None:
    log = next(disk.root.glob("tier/*/broker-a/T1/0/COMMIT_LOG/*"))
    whole = log.read_bytes()
    flip(log, 120)
    rows = told(disk)
    assert disk.looks == 2 and len(rows["tiered"]) == sum(MESSAGES.values()) - 1
    assert {(one["queue"], one["value"]["about"]) for one in rows["tier_damage"]} == {(5, "content")}
    disk.looks, disk.mended = 0, {log: whole}
    assert "tier_damage" not in told(disk) and disk.looks == 2


def test_a_file_that_the_metadata_name_and_nobody_finds_is_told(disk: Disk) -> None:
    sorted(disk.root.glob("tier/*/broker-a/T1/1/COMMIT_LOG/*"))[-1].unlink()
    assert "metadata" in {one["value"]["about"] for one in told(disk)["tier_damage"]}


def test_of_a_broker_that_can_not_be_read_that_alone_is_told(disk: Disk) -> None:
    (unread,) = told(disk, "broker-9").pop("tier_unread")
    assert "broker-9" in unread["value"]["reason"]


def test_a_tier_that_is_gone_as_a_whole_is_missed_by_its_notes(disk: Disk) -> None:
    (disk.root / "tier").rename(disk.root / "elsewhere")
    rows = told(disk)
    assert set(rows) == {"tier_damage", "tier_queue"} and disk.looks == 2
    assert {one["queue"] for one in rows["tier_damage"]} == {queue.index for queue in QUEUES}
    for notes in disk.root.glob("store/config/tieredStoreMetadata.json*"):
        notes.unlink()
    assert told(disk) == {}


def test_what_a_broker_writes_while_it_is_looked_at_is_not_claimed(disk: Disk) -> None:
    """Two damaged places, one at each look: the second is that of a message which came since the first."""
    queue = max(disk.root.glob("tier/*/broker-a/T1/0/CONSUME_QUEUE/*"), key=lambda path: path.name[8:])
    whole = queue.read_bytes()
    assert len(whole) % UNIT.size == 0
    impossible = bytearray(whole[: -UNIT.size])
    impossible[8:12] = bytes(4)
    queue.write_bytes(impossible)
    dangling = bytearray(whole)
    dangling[-UNIT.size : 8 - UNIT.size] = (1 << 40).to_bytes(8, "big")
    disk.mended = {queue: bytes(dangling)}
    rows = told(disk)
    (known,) = [one["value"] for one in rows["tier_queue"] if one["queue"] == 5]
    assert known == {"minimum": 0, "maximum": MESSAGES[0] - 1} and disk.looks == 2
    assert not [one for one in rows.get("tier_damage", ()) if one["value"]["about"] == "content"]
