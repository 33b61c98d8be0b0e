"""What is no regular file of a sensible size is refused in one sentence, before anybody waits for it or holds it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from chaos import guarded
from chaos.errors import BadInput, ChaosError, DamagedHistory


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
    kinds = {"pipe": "a pipe", "link": "a link", "socket": "a socket", ".": "a directory"}
    for name, words in kinds.items():
        with pytest.raises(BadInput, match=f"is {words}; only a regular file is read"):
            guarded.read(tmp_path / name)
    with pytest.raises(BadInput, match="is a device"):
        guarded.read(Path("/dev/zero"))
    with pytest.raises(FileNotFoundError):
        guarded.read(tmp_path / "none")


def test_a_link_may_be_followed_to_a_regular_file_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"here")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "odd").symlink_to("/dev/zero")
    assert guarded.read(tmp_path / "link", links=True) == b"here"
    with pytest.raises(BadInput, match="is a device"):
        guarded.read(tmp_path / "odd", links=True)


def test_no_more_is_read_than_what_is_allowed(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(5 << 30)
    with pytest.raises(BadInput, match=r"has 5,368,709,120 bytes; at most 33,554,432 are read"):
        guarded.read(tmp_path / "huge")


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("[" * 100_000, BadInput, "nested too deeply"),
        ('{"a":' * 100_000, BadInput, "nested too deeply"),
        ("[" * 101 + "]" * 101, BadInput, "nested too deeply"),
        ('{"rows": ' + "9" * 5000 + "}", BadInput, "not a number to us"),
        ('{"rows": NaN}', DamagedHistory, "NaN is not a number"),
        ('{"rows": 1e999}', DamagedHistory, "too large"),
        ('{"name": "\\ud800"}', DamagedHistory, "no Unicode"),
        ("", DamagedHistory, "not JSON"),
        (b"\xff", DamagedHistory, "not JSON"),
    ],
    ids=["lists", "objects", "101", "digits", "nan", "inf", "surrogate", "empty", "bytes"],
)
def test_json_that_nobody_could_hold_is_refused(text: str | bytes, error: type[ChaosError], words: str) -> None:
    with pytest.raises(error, match=words):
        guarded.parsed(text, "it")


def test_json_comes_back_as_it_is() -> None:
    value = {"a": [1, 2.5, None, True, "ä"], "b": {"c": "x" * 1000}}
    assert guarded.parsed('{"a": [1, 2.5, null, true, "ä"], "b": {"c": "' + "x" * 1000 + '"}}', "it") == value
    assert guarded.parsed("[" * 100 + "]" * 100, "it") is not None


@pytest.mark.parametrize("way", ["link", "pipe"])
def test_what_stands_in_the_way_of_a_file_is_not_written_to(tmp_path: Path, way: str) -> None:
    (tmp_path / "other").write_bytes(b"precious")
    for name in ("verdict.json", "verdict.json.new"):
        if way == "link":
            (tmp_path / name).symlink_to(tmp_path / "other")
        else:
            os.mkfifo(tmp_path / name)
    guarded.replace(tmp_path / "verdict.json", b"{}")
    assert (tmp_path / "verdict.json").read_bytes() == b"{}" and not (tmp_path / "verdict.json").is_symlink()
    assert (tmp_path / "other").read_bytes() == b"precious"
    assert not (tmp_path / "verdict.json.new").exists()
