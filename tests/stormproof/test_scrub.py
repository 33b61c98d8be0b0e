"""``stormproof scrub``: what was seen twice is told, and what could not be read is no damage."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.scrub import Damage, Kind, Look, Piece
from stormproof import cli
from stormproof.commands import _scrubbing
from tests.drivers.rocketmq.real import flip, unpack

TIER = "tier/212d6b50_DefaultCluster/broker-a/T1"
LOG = f"{TIER}/0/COMMIT_LOG/cfcd208400000000000000000000"


@dataclass(frozen=True, slots=True)
class Looks:
    """A scrubber of one piece that sees one of these after the other."""

    seen: list[Look | OSError]
    holds: str = "what a test says"

    def pieces(self, folder: Path) -> Sequence[Piece] | None:
        def look() -> Look:
            found = self.seen.pop(0)
            if isinstance(found, OSError):
                raise found
            return found

        return [Piece(name="piece", look=look)]


def damaged(*places: int) -> Look:
    return Look(damage=[Damage(file="f", kind=Kind.GAP, text="gone", at=at) for at in places])


Scrub = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Scrub:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli._run(["scrub", "--wait", "0", *map(str, arguments)])
        out, err = capsys.readouterr()
        return code, out, err

    return call


def test_a_real_brokers_folder_is_whole(run: Scrub, tmp_path: Path) -> None:
    code, out, _ = run(unpack(tmp_path))
    assert code == 0 and "3 pieces read" in out and "0 damaged places" in out
    assert run(tmp_path / "tier")[0] == 0


def test_damage_is_told_with_its_place(run: Scrub, tmp_path: Path) -> None:
    flip(unpack(tmp_path) / LOG, 90)
    code, out, _ = run(tmp_path / "tier")
    assert code == 1 and "COMMIT_LOG/cfcd208400000000000000000000, byte 0: checksum: message 0" in out
    code, out, _ = run("--json", tmp_path)
    (system,) = json.loads(out)["systems"]
    (place,) = [one for piece in system["pieces"] for one in piece["damage"]]
    assert code == 1 and (place["kind"], place["at"]) == ("checksum", 0)


def test_metadata_that_a_tier_does_not_keep_are_damage(run: Scrub, tmp_path: Path) -> None:
    (unpack(tmp_path) / f"{TIER}/0/CONSUME_QUEUE/f39ae9ff00000000000000001800").unlink()
    assert run(tmp_path / "tier")[0] == 0  # by itself the queue just ends earlier
    code, out, _ = run(tmp_path)
    assert code == 1 and "CONSUME_QUEUE from 1800 on (60 bytes) is not in the tier" in out and "note:" in out


def test_an_empty_tier_is_nothing_to_judge(run: Scrub, tmp_path: Path) -> None:
    (tmp_path / "212d6b50_DefaultCluster").mkdir()
    assert run(tmp_path)[0] == 2


def test_a_store_without_a_message_is_nothing_to_judge(run: Scrub, tmp_path: Path) -> None:
    """A log that was lost as a whole, with its queues, leaves files full of zeros."""
    for folder in ("commitlog", "config"):
        (tmp_path / folder).mkdir()
    assert run(tmp_path)[0] == 2
    (tmp_path / "commitlog" / "0".zfill(20)).write_bytes(bytes(4096))
    code, out, _ = run(tmp_path)
    assert code == 2 and "0 damaged places" in out


@pytest.mark.parametrize("path", ["nothing", "a file", "another folder"])
def test_what_is_no_system_is_refused_with_one_sentence(run: Scrub, tmp_path: Path, path: str) -> None:
    (tmp_path / "a file").touch()
    (tmp_path / "another folder").mkdir()
    code, _, err = run(tmp_path / path)
    assert code == 3 and err.startswith("error: ") and "Traceback" not in err


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        ([Look()], 0),
        ([damaged(1), Look()], 0),  # it was being written
        ([damaged(1), damaged(2)], 0),  # as well, and it has gone on
        ([damaged(1, 2), damaged(2, 3)], 1),
        ([FileNotFoundError(2, "gone", "f"), Look()], 0),  # deleted for its age while we read
        ([FileNotFoundError(2, "gone", "f")] * 3, 3),
        ([PermissionError(13, "no", "f")], 3),
        ([damaged(1), PermissionError(13, "no", "f")], 3),
    ],
)
def test_only_what_both_looks_show_is_told(
    run: Scrub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seen: list[Look | OSError], code: int
) -> None:
    monkeypatch.setattr(_scrubbing, "_scrubbers", lambda: {"test": Looks(list(seen))})
    found, out, err = run(tmp_path)
    assert found == code and ("piece was not judged: f: " in err) == (code == 3)
    assert (code != 1) or "f, byte 2: gap: gone" in out
