"""Files between a node and the harness: replaced in one step, read from anywhere, and never anywhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chaos.effects.disks import Full, SlowDisk
from chaos.shell import disk_rules
from chaos.shell.disk_rules import Hits, ReadRules
from chaos.shell.node_files import NodeFile, file_of, get, put


def test_a_file_is_replaced_or_gone_and_read_from_where_one_likes(tmp_path: Path) -> None:
    path = file_of(tmp_path / "nodes", "a.b", NodeFile.CLOCK)
    assert path.name == "a.b.clock" and get(path) == b""
    put(path, b"one")
    with path.open("rb") as before:
        put(path, b"two")
        assert before.read() == b"one", "who has begun to read it sees all of it"
    assert (get(path), get(path, 1), get(path, 9)) == (b"two", b"wo", b"")
    assert path.stat().st_mode & 0o444 == 0o444, "nodes may run as another user"
    for _ in range(2):
        put(path, b"")
    assert os.listdir(path.parent) == [] and get(path) == b""


@pytest.mark.parametrize("name", ["n.hits", "n.hits.part"])
def test_a_link_that_a_node_makes_leads_nowhere(tmp_path: Path, name: str) -> None:
    secret, path = tmp_path / "secret", tmp_path / "n.hits"
    secret.write_bytes(b"secret")
    (tmp_path / name).symlink_to(secret)
    with pytest.raises(OSError, match="is a link"):
        get(path) if name == path.name else put(path, b"x")
    if name == path.name:
        put(path, b"x")
    assert secret.read_bytes() == b"secret"


@pytest.mark.parametrize("name", ["n.hits", "n.hits.part"])
def test_a_pipe_that_a_node_makes_holds_nobody_up(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    path = tmp_path / "n.hits"
    with pytest.raises(OSError, match=r"not seekable|No such device"):
        get(path) if name == path.name else put(path, b"x")


def test_a_node_sees_rules_come_and_go_and_its_hits_are_read_on(tmp_path: Path) -> None:
    file = file_of(tmp_path, "n", NodeFile.DISK_RULES)
    rules, hits = ReadRules(file), Hits()

    def read_on() -> Hits:
        hits.read_on(get(file_of(tmp_path, "n", NodeFile.DISK_HITS), hits.read_bytes))
        return hits

    assert not rules.refresh() and read_on().counts["slow"] == 0
    put(file, disk_rules.content({"full": Full(), "slow one": SlowDisk(5)}))
    assert rules.refresh() and rules.latency_ns() == 5
    assert read_on().counts == {"slow one": 1} and hits.failures == 0
    put(file, disk_rules.content({"full": Full()}))
    assert rules.refresh() and rules.latency_ns() == 0 and rules.refuses_growth()
    assert read_on().counts == {"slow one": 1, "full": 1} and hits.failures == 1
    put(file, disk_rules.content({}))
    assert not rules.refresh() and not file.exists() and not rules.refuses_growth()
    assert read_on().counts == {"slow one": 1, "full": 1} == read_on().counts


def test_a_line_of_hits_counts_once_it_is_whole() -> None:
    hits = Hits()
    for more, full, read in ((b"full Fu", 0, 0), (b"full Full\nslow Slo", 1, 10), (b"slow SlowDisk\n", 1, 24)):
        hits.read_on(more)
        assert (hits.counts["full"], hits.failures, hits.read_bytes) == (full, full, read)
    assert hits.counts["slow"] == 1
