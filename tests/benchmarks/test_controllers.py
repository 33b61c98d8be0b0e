"""The controllers' report: what it makes of results, and what brokers' requests and answers look like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.controllers import correctness, requests
from benchmarks.controllers.bench import INFO, MIXED, REGISTER
from benchmarks.controllers.cluster import KINDS, ROCKETMQ
from benchmarks.controllers.page import write
from benchmarks.controllers.pieces import LOGGED, kept, pieces
from benchmarks.controllers.results import Results
from reference.controller.dispatch import CLASSIC, PARALLEL
from reference.controller.replicas import Replicas


def phase(per_s: float, p99_ms: float, **more: object) -> dict[str, object]:
    ms = {"50": p99_ms / 2, "90": p99_ms, "99": p99_ms, "99.9": p99_ms}
    told = {"count": 100, "per_s": per_s, "ms": ms, "max_ms": p99_ms, "processor_us": 100.0, "cores": 1.5}
    return told | {"generator_cores": 0.25, "refused": {}} | more


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    keep(tmp_path, "load-100", {
        "groups": 100,
        "machine": {"cores": 2, "load": 1.0},
        "kinds": {
            CLASSIC: {REGISTER: phase(100, 40), INFO: phase(100, 40), MIXED: phase(50, 30)},
            PARALLEL: {REGISTER: phase(500, 10), INFO: phase(2000, 5), MIXED: phase(50, 3)},
            ROCKETMQ: {REGISTER: phase(30, 900), INFO: phase(1000, 20), MIXED: phase(50, 900)},
        },
    })  # fmt: skip
    return tmp_path


def keep(folder: Path, name: str, result: Mapping[str, Any]) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"piece": name, **result}), "utf-8")


def test_aims_are_compared_and_a_missed_one_says_by_how_much(folder: Path) -> None:
    aims = {aim.what: aim for aim in Results(folder).aims()}
    changes = aims["changes, 64 in flight: parallel over classic"]
    assert (changes.value, changes.is_reached, changes.missed_by) == (5.0, False, "missed by a factor of 2")
    p99 = aims["p99 of a read beside changes and heartbeats: parallel over classic"]
    assert (p99.value, p99.is_reached) == (pytest.approx(0.1), True)
    assert aims["memory of a group of three"].value is None


def test_the_page_says_what_is_missing_and_shows_no_picture_that_is_not_there(folder: Path) -> None:
    page = folder / "results" / "controllers.md"
    page.parent.mkdir()
    write(folder, page)
    told = page.read_text("utf-8")
    assert "`failover-parallel`" in told.partition("## What was left out")[2]
    assert "| changes: parallel over RocketMQ | ≥ 2 x | 16.67 x | reached |" in told
    shown = {line.partition("](controllers/")[2].rstrip(")") for line in told.splitlines() if line[:2] == "!["}
    assert shown == {path.name for path in (folder / "results" / "controllers").iterdir()}
    assert "throughput.svg" in shown and "failover.svg" not in shown


def test_reads_that_are_logged_are_compared_with_such_reads(folder: Path) -> None:
    assert Results(folder).straw_man() == {REGISTER: pytest.approx(100 / 30)}
    keep(folder, "logged-reads", {"kinds": {LOGGED: {INFO: phase(80, 40)}}})
    assert Results(folder).straw_man() == {REGISTER: pytest.approx(100 / 30), INFO: pytest.approx(1.25)}


def test_the_model_takes_the_busiest_controller_where_each_has_a_core(folder: Path) -> None:
    one = phase(1000, 1, processor_s=[0.05, 0.0, 0.0])  # 0.5 ms for each of 100 reads
    three = phase(1200, 1, processor_s=[0.02, 0.01, 0.01])
    keep(folder, "readers", {"readers": {"1": one, "2": one, "3": three}})
    readers = Results(folder).readers()
    assert readers[1]["own_cores"] == pytest.approx(2000)
    assert readers[3]["own_cores"] == pytest.approx(5000)
    assert readers[1]["here"] == pytest.approx(2000)  # one process can use one core alone


def test_a_profile_counts_for_the_most_specific_part_of_the_code(folder: Path) -> None:
    places = {"reference/raft/log.py:put": 1, "reference/raft/member.py:message": 2, "nowhere": 1}
    places |= {"chaos/shell/strict_disk.py:write": 1, "reference/wire/codec.py:decode loads": 5}
    keep(folder, f"profile-{INFO}", {"samples": places, **phase(1, 1)})
    shares = Results(folder).areas(INFO)
    assert shares == {"frames (JSON headers)": 0.5, "log and disk": 0.2, "Raft": 0.2, "other": 0.1}


def test_each_piece_has_a_name_of_its_own_and_what_it_builds_upon_comes_first() -> None:
    names = [piece.name for piece in pieces()]
    assert len(set(names)) == len(names)
    for groups in (10, 100, 1000, 10_000):
        assert names.index(f"state-{PARALLEL}-{groups}") < names.index(f"load-{groups}")
    assert {f"failover-{kind}" for kind in KINDS} < set(names)


def test_a_piece_that_was_not_measured_is_not_there(tmp_path: Path) -> None:
    assert kept("load-100", tmp_path) is None


def test_standings_are_read_from_both_kinds_of_json() -> None:
    info = {"masterBrokerId": 2, "masterEpoch": 3, "syncStateSetEpoch": 5, "inSyncReplicas": [{"brokerId": 2}]}
    masterless = {"masterEpoch": 4, "syncStateSetEpoch": 5, "inSyncReplicas": []}
    table = {"replicasInfoTable": {"a": info, "b": masterless}}
    frame = b'\0\0\0\1{"code":0}' + json.dumps(table, separators=(",", ":")).encode()
    found = requests.read_standings(frame)
    assert (found["a"].master, found["a"].other, found["a"].members) == (2, 1, (2,))
    assert found["b"].master == 0


def test_recorded_bugs_are_those_of_the_controllers() -> None:
    rows = "| `votes-twice` | linearizable | split_vote | 2 | 3/5 | – | a story |\n"
    rows += "| `joins-behind` | in-sync | quickstart | 1 | 5/5 | – | another |\n"
    assert correctness.found_bugs(f"# Page\n\n{rows}") == [
        ["`votes-twice`", "linearizable", "split_vote", "2", "3/5", "–", "a story"]
    ]


def test_bugs_planted_in_controllers_and_their_examples_are_all_tried() -> None:
    examples = correctness.examples()
    assert {"register", "classic_controllers", "lock"} <= set(examples)
    assert {*examples} <= {*correctness.EXPERIMENTS}
    assert {"votes-twice", "proposes-again"} <= {one.name for one in correctness.planted()}
    assert Replicas in {base for one in correctness.planted() for cls in one.parts["controller"].values()
                        for base in cls.__mro__}  # fmt: skip
