"""The exhaustive exploration of Raft's core: the correct members keep all laws, and planted bugs are found."""

from __future__ import annotations

from functools import partial

import pytest

from benchmarks.exploration import explorer
from benchmarks.exploration.controller import Controller
from benchmarks.exploration.explorer import NAMES, Explorer
from benchmarks.exploration.scope import Scope
from benchmarks.exploration.scopes import BUGS, LONG, SCOPES, SHORT, explored
from reference.raft.member import Raft
from tests.benchmarks.alike import Alike

_NAMES = [scope.name for scope in SCOPES]
#: With these a run of a few seconds suffices.
_QUICK_BUGS = (
    *("votes-twice", "promises-before-fsync", "append-skips-a-gap", "commits-earlier-term"),
    "follower-reads-unapplied",
)
#: What a member's key distinguishes states by, or what never changes; ``_announced``, ``_elected_by`` and
#: ``_untold_votes`` are nothing but a memory of what was traced, or will be.
_KNOWN = {
    *("name", "options", "machine", "memberships", "log", "role", "leader", "leader_heard_ns", "deadline_ns", "ballot"),
    *("elected_by", "commit", "applied", "proposals", "term_start", "peers", "rounds", "lease", "transferring"),
    *("reads.questions", "reads.waiting", "snapshots._making", "snapshots.incoming", "roles._announced"),
    "election._untraced",
}
#: Where the parts of a member stand.
_PARTS = {
    f"reference.raft.{name}"
    for name in (
        *("policy", "sending", "reads", "snapshots", "applying", "leading", "roles", "following", "election"),
        *("transfer", "membership"),
    )
}


@pytest.mark.parametrize("scope", _NAMES)
def test_the_correct_members_keep_the_laws(scope: str) -> None:
    found = explored(scope, most_states=SHORT)
    assert found.violation == "", found.path
    assert found.is_complete or found.states >= SHORT


@pytest.mark.parametrize("bug", _QUICK_BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    found = explored(BUGS[bug], bug)
    assert found.violation, found
    assert len(found.path) == found.depth


def test_what_is_small_is_explored_to_its_end() -> None:
    scope = Scope(name="one change", begin=("timeout a", "settle"), entries={"": 1}, timeouts={"b": 1})
    found = Explorer(scope, partial(Controller, Raft, NAMES)).run(LONG)
    assert (found.is_complete, found.violation) == (True, "")
    assert found.depth > 8


def test_the_same_is_explored_each_time() -> None:
    assert explored("reads", most_states=2000) == explored("reads", most_states=2000)


@pytest.mark.parametrize("scope", ["slow disks", "reads"])
def test_states_that_count_as_one_go_on_alike(scope: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "Steps", Alike)
    monkeypatch.setattr(Alike, "compared", 0)
    assert explored(scope, most_states=2_000).violation == ""
    assert Alike.compared > 50


def test_a_new_part_of_a_member_is_noticed() -> None:
    """It has to be part of ``raft_key``, unless it never changes."""
    raft = Controller(Raft, NAMES, "a").raft()
    parts = {name: part for name, part in vars(raft).items() if type(part).__module__ in _PARTS}
    found = {name for name in vars(raft) if name not in parts}
    for name, part in parts.items():
        own = (key for key, value in vars(part).items() if value is not raft and value not in parts.values())
        found |= {f"{name}.{key}" for key in own}
    assert found == _KNOWN


@pytest.mark.full
@pytest.mark.parametrize("scope", _NAMES)
def test_the_correct_members_keep_the_laws_in_many_states(scope: str) -> None:
    found = explored(scope, most_states=LONG // 3)  # `python -m benchmarks.exploration` goes on to the end
    assert found.violation == "", found.path


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_all_planted_bugs_are_found(bug: str) -> None:
    assert explored(BUGS[bug], bug).violation
