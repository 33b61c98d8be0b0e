"""The exploration of one group of a storage cluster: correct stores keep all laws, and planted bugs are found."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.exploration import explorer
from benchmarks.exploration.explorer import Explorer
from benchmarks.exploration.group_entries import wrong_history
from benchmarks.exploration.groups import BUGS, LONG, SCOPES, SHORT, explored
from benchmarks.exploration.scope import Scope
from benchmarks.exploration.store import Parts, Store
from reference.split.store.segment_files import SegmentFiles
from tests.benchmarks.alike import Alike

_NAMES = [scope.name for scope in SCOPES]
#: What a member's key distinguishes states by, or what never changes. Nothing gathers: proposals are logged at once,
#: and what a step has made leaves at its end.
_OF_HOST = {
    *("_machines", "_options", "_replica", "_policy", "wal", "replicas", "disk", "_envs", "_shared"),
    *("_clocks", "_synced", "_gathering", "_in_rounds", "_waits", "_mark"),
}
_OF_MACHINE = {"group", "files", "applied", "is_damaged", "_is_freshly_sealed", "_unsafe"}
_OF_FILES = {"held", "_writing", "_syncs", "_unwritten", "_unchecked", "_disk"}
_OF_SHARED = {"beat_ns", "timers", "syncs", "beats", "messages", "_env"}
_OF_SYNCS = {"batch", "_paths", "_groups", "_running"}


@pytest.mark.parametrize("scope", _NAMES)
def test_correct_stores_keep_the_laws(scope: str) -> None:
    found = explored(scope, most_states=SHORT)
    assert found.violation == "", found.path
    assert found.is_complete or found.states >= SHORT


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    found = explored(BUGS[bug], bug)
    assert found.violation, found
    assert len(found.path) == found.depth


def test_what_is_small_is_explored_to_its_end() -> None:
    scope = Scope(name="a fence", begin=("timeout a", "settle"), entries={"fence 1": 1}, crashes={"a": 1})
    found = Explorer(scope, partial(Store, Parts()), wrong_history).run(LONG)
    assert (found.is_complete, found.violation) == (True, "")


def test_the_same_is_explored_each_time() -> None:
    assert explored("a disk is lost", most_states=200) == explored("a disk is lost", most_states=200)


@pytest.mark.parametrize(
    ("history", "wrong"),
    [
        (("fence 1", "append 1 0 5", "fence 2", "append 2 5 9"), ""),
        (("append 1 0 5",), "an append of epoch 1 is taken, though epoch 0 owns the group"),
        (("fence 1", "fence 2", "", "append 1 0 5"), "an append of epoch 1 is taken, though epoch 2 owns the group"),
        (("fence 1", "append 1 0 5", "append 1 0 5"), "an append is taken at 0, though the group ends at 5"),
        (("fence 2", "fence 1"), "epoch 1 takes over from 2"),
    ],
)
def test_appends_are_those_of_the_owner_that_was_fenced_last(history: tuple[str, ...], wrong: str) -> None:
    assert wrong_history(history) == wrong


@pytest.mark.parametrize("scope", ["a seal, slow disks", "a newcomer votes"])
def test_states_that_count_as_one_go_on_alike(scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "Steps", Alike)
    monkeypatch.setattr(Alike, "compared", 0)
    assert explored(scope, most_states=2_000).violation == ""
    assert Alike.compared > 50


def test_a_new_part_of_a_store_is_noticed() -> None:
    """It has to be part of ``Store.key``, unless it never changes."""
    store = Store(Parts(), "a")
    store.make_machine(5)
    assert store._machine is not None
    assert set(vars(store._host)) == _OF_HOST
    assert set(vars(store._machine)) == _OF_MACHINE
    assert set(vars(SegmentFiles())) == _OF_FILES
    assert set(vars(store._host._shared)) == _OF_SHARED
    assert set(vars(store._host._shared.syncs)) == _OF_SYNCS


@pytest.mark.full
@pytest.mark.parametrize("scope", _NAMES)
def test_correct_stores_keep_the_laws_in_many_states(scope: str) -> None:
    found = explored(scope, most_states=LONG // 3)  # `python -m benchmarks.exploration groups` goes on to the end
    assert found.violation == "", found.path
