"""What a run's page shows of a storage cluster: who served slices, where replicas were, what was sealed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports.run_report import labels
from reports.run_report.figure import Figure, axis_of, draw
from reports.run_report.states import states
from reports.run_report.storage import StorageStory, storage_story
from reports.summary import Story
from tests.reports.run_report.histories import MadeRun


def seal(history: MadeRun, at: float, node: str, group: int, begin: int, end: int, f: str = "sealed") -> None:
    history.trace(at, node, f, position=begin, value={"group": group, "topic": 17, "end": end})


def members(history: MadeRun, at: float, node: str, index: int, voters: list[str], learners: list[str]) -> None:
    names = {"voters": voters, "learners": learners, "group": 4}
    history.trace(at, node, "members", position=index, epoch=1, value=names)


def story_of(history: MadeRun) -> tuple[Story, StorageStory]:
    rows, story = history.close()
    return story, storage_story(rows, story.faults)


def bars(found: Any) -> list[tuple[str, str, float]]:
    return [(bar.lane, bar.label, bar.start_s) for bar in found]


def test_a_slice_is_served_until_the_next_owner_has_fenced_it(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.trace(1.0, "broker-0", "opened", epoch=1, value={"slice": "slice-0", "life": 5, "ends": {}})
    history.trace(4.0, "broker-1", "opened", epoch=2, value={"slice": "slice-0", "life": 6, "ends": {}})
    history.trace(6.0, "broker-0", "closed_slice", epoch=1, value={"slice": "slice-0", "life": 5, "ends": {}})
    history.trace(7.0, "broker-1", "closed_slice", epoch=2, value={"slice": "slice-0", "life": 6, "ends": {}})
    story, found = story_of(history)
    assert [(bar.label, bar.start_s, bar.end_s) for bar in found.owners] == [
        ("broker-0 1", 1.0, 4.0),
        ("broker-1 2", 4.0, 7.0),
    ]
    assert found.events == [(1.0, "slice-0: broker-0 1"), (4.0, "slice-0: broker-1 2")]
    page = draw(story, Figure(marks=[], storage=found))
    assert "Slices: who served them" in page and "broker-0, 1, 1.00 s to 4.00 s" in page
    assert labels.of_owner(found.owners[0]) == ("broker-0, 1", "b0, 1", "1")


def test_a_group_that_moved_has_a_bar_for_each_membership(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    birth = {"birth": ["store-0#1", "store-1#2"]}
    for name in ("4", "5"):
        entry = {"type": "entry", "kind": "group", "name": name, "value": birth}
        history.trace(0.5, "meta-0", "applied", position=1, value={"entry": entry})
    for at, node in ((3.0, "store-0"), (3.1, "store-1")):
        members(history, at, node, 7, ["store-0#1", "store-1#2"], ["store-2#3"])
    members(history, 5.0, "store-0", 9, ["store-0#1", "store-2#3"], [])
    _, found = story_of(history)
    assert bars(found.moved) == [
        ("group 4", "store-0, store-1", 0.5),
        ("group 4", "store-0, store-1 (+ store-2)", 3.0),
        ("group 4", "store-0, store-2", 5.0),
    ]
    assert labels.of_members(found.moved[1]) == ("store-0, store-1 (+ store-2)", "0, 1 (+ 2)")
    assert (5.0, "group 4: store-0, store-2") in found.events


def test_leaders_of_groups_are_not_roles_of_controllers(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.trace(1.0, "meta-0", "raft", epoch=1, value={"role": "leader", "leader": "meta-0"})
    history.trace(2.0, "store-0", "raft", epoch=3, value={"role": "leader", "leader": "store-0#1", "group": 4})
    history.trace(3.0, "store-0", "raft", epoch=1, value={"role": "follower", "leader": "", "group": 5})
    history.trace(6.0, "store-1", "raft", epoch=4, value={"role": "leader", "leader": "store-1#2", "group": 4})
    story, found = story_of(history)
    assert bars(story.terms) == [("meta-0", "leader 1", 1.0)]
    assert bars(found.leaders) == [("group 4", "store-0 3", 2.0), ("group 4", "store-1 4", 6.0)]
    assert found.leaders[0].end_s == 6.0


def test_nodes_have_roles_in_slices_and_groups(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    for at, name in ((1.0, "slice-0"), (3.0, "slice-1")):
        history.trace(at, "broker-0", "opened", epoch=1, value={"slice": name, "life": 5, "ends": {}})
    history.trace(5.0, "broker-0", "closed_slice", epoch=1, value={"slice": "slice-0", "life": 5, "ends": {}})
    for group in range(12):
        history.trace(2.0, "store-0", "raft", epoch=3, value={"role": "leader", "leader": "store-0#1", "group": group})
    history.trace(6.0, "store-1", "raft", epoch=4, value={"role": "leader", "leader": "store-1#2", "group": 11})
    seal(history, 8.0, "store-0", 4, 0, 100)
    rows, story = history.close()
    found = storage_story(rows, story.faults)
    known = states(rows, story, axis_of(story), [], found)
    roles = {node["name"]: [role[2:] for role in node["roles"]] for node in known["nodes"]}
    assert roles["broker-0"] == [
        ["owner", "slice-0: 1"], ["owner", "slice-0: 1, slice-1: 1"], ["owner", "slice-1: 1"]
    ]  # fmt: skip
    names = ", ".join(map(str, range(8)))
    assert [words for _, words in roles["store-0"]] == [f"groups {names} and {more} more" for more in (4, 3)]
    assert [3.0, "slice-1: broker-0 1"] in [list(event) for event in known["events"]]


def test_a_segment_that_waits_for_the_tier_has_a_bar(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    for at, node in ((1.0, "store-0"), (1.2, "store-1")):
        seal(history, at, node, 4, 0, 16_384)
    seal(history, 5.0, "store-1", 4, 0, 16_384, "uploaded")
    seal(history, 6.0, "store-0", 4, 16_384, 40_000)
    story, found = story_of(history)
    assert found.sealed[4].end == 40_000
    assert [one[:2] for one in found.sealed[4].seals] == [(1.0, 5.0), (6.0, story.duration_s)]
    page = draw(replace(story, duration_s=20.0), Figure(marks=[], storage=found))
    assert "segment up to 16,384 waits for the tier, 1.00 s to 5.00 s" in page and "<li>40,000</li>" in page


@pytest.mark.parametrize("value", [{}, {"group": "x"}, {"group": True}, {"group": -4}, {"group": 4, "voters": 7}])
def test_rows_without_sense_draw_nothing_wrong(tmp_path: Path, value: dict[str, Any]) -> None:
    history = MadeRun(tmp_path)
    for f in ("members", "raft", "sealed", "uploaded", "opened", "closed_slice"):
        history.trace(1.0, "store-0", f, value=value)
    history.trace(1.0, "meta-0", "applied", value={"entry": {"kind": "group", "name": "4", "value": 3}})
    story, found = story_of(history)
    assert draw(story, Figure(marks=[], storage=found))


def test_a_run_of_another_system_has_nothing_of_it(tmp_path: Path) -> None:
    history = MadeRun(tmp_path)
    history.role(0.0, "broker-0", "master", 1)
    story, found = story_of(history)
    assert not any((found.owners, found.leaders, found.moved, found.sealed, found.events))
    assert draw(story, Figure(marks=[], storage=found)) == draw(story, Figure(marks=[]))
