"""A controller votes once in a term, and durably; a leader has a majority, and commits by its own term."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.controller_runs import CONTROLLERS, Run, run
from tests.checkers.names import A, L

LAW = L.CONTROLLERS
FIVE = [f"controller-{number}" for number in range(5)]


def vote(it: Run, voter: int, candidate: int, term: int = 2, **told: Any) -> None:
    life = told.pop("incarnation", 1)
    value = {"candidate": f"controller-{candidate}", **told}
    it.trace(f"controller-{voter}", "vote", epoch=term, incarnation=life, value=value)


def leads(
    it: Run, node: int, votes: tuple[int, ...], *, term: int = 2, voters: Any = CONTROLLERS, commit: int = 1
) -> None:
    name = f"controller-{node}"
    told = {"votes": [f"controller-{one}" for one in votes], "voters": list(voters), "commit": commit}
    it.trace(name, "raft", epoch=term, value={"role": "leader", "leader": name, **told})


def elected() -> Run:
    """controller-1 stands for election in term 2, and controller-2 votes for it."""
    it = run()
    it.inject("kill", "controller-0")
    vote(it, 1, 1)
    vote(it, 2, 1)
    return it


def test_two_votes_of_one_term_are_found_over_restarts_too() -> None:
    it = elected()
    vote(it, 2, 0, incarnation=2)
    found = it.expect(LAW, A.TWO_VOTES).anomalies[0]
    assert "controller-2 voted for controller-0 in term 2" in found.explanation and len(found.rows) == 2


def test_processes_are_judged_by_their_votes_too() -> None:
    it = elected()
    vote(it, 2, 0)
    it.meta["deployment"] = "process"
    it.expect(LAW, A.TWO_VOTES)


def test_a_vote_may_be_given_again_to_the_same_and_in_another_term_to_anybody() -> None:
    it = elected()
    vote(it, 2, 1)
    vote(it, 2, 0, term=3)
    it.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize(("name", "node", "found"), [("wipe", 2, False), ("wipe", 1, True), ("kill", 2, True)])
def test_only_a_disk_that_was_taken_may_forget_a_vote(name: str, node: int, found: bool) -> None:
    it = elected()
    it.undo(name, it.inject(name, f"controller-{node}"))
    vote(it, 2, 0)
    it.expect(LAW, *[A.TWO_VOTES] * found)


def test_a_fault_that_declares_nothing_leaves_a_second_vote_unknown() -> None:
    it = elected()
    it.undo("odd", it.inject("odd", "controller-2", effects=None))
    vote(it, 2, 0)
    it.expect(LAW, validity=Validity.UNKNOWN)


@pytest.mark.parametrize(("disk", "found"), [(99, True), (100, False), (120, False)])
def test_a_vote_is_on_the_disk_when_its_answer_leaves(disk: int, found: bool) -> None:
    it = elected()
    vote(it, 0, 0, term=3, file="raft/log.1", size=100, disk=disk)
    it.expect(LAW, *[A.VOTE_NOT_DURABLE] * found)


def test_a_leader_with_the_votes_of_a_majority_is_one() -> None:
    it = elected()
    leads(it, 1, (1, 2))
    it.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize(
    ("votes", "voters", "why"),
    [
        ((1,), CONTROLLERS, "the votes of controller-1 alone"),
        ((1, 4), CONTROLLERS, "the votes of controller-1 alone"),
        ((1,), ("controller-1",), "who never were all that vote"),
        ((1, 2), FIVE, "the votes of controller-1, controller-2 alone"),
        ((1, 0), CONTROLLERS, "controller-0, whose vote it counted, had given none in that term"),
    ],
)
def test_a_leader_without_a_majority_is_none(votes: tuple[int, ...], voters: Any, why: str) -> None:
    it = elected()
    leads(it, 1, votes, voters=voters)
    (found,) = it.expect(LAW, A.UNELECTED_LEADER).anomalies
    assert why in found.explanation


def test_a_vote_that_another_candidate_got_is_none_for_the_leader() -> None:
    it = elected()
    vote(it, 0, 0)
    leads(it, 1, (0, 1))
    it.meta["deployment"] = "process"
    assert "had given it to controller-0" in it.expect(LAW, A.UNELECTED_LEADER).anomalies[0].explanation


def test_without_one_clock_a_voter_that_says_nothing_says_nothing_against_its_leader() -> None:
    it = elected()
    leads(it, 1, (0, 1))
    it.meta["deployment"] = "process"
    it.expect(LAW, validity=Validity.VALID)


def test_a_change_of_the_members_that_was_never_committed_may_count() -> None:
    it = elected()
    leads(it, 1, (1, 2), voters=("controller-1", "controller-2"))
    it.expect(LAW, validity=Validity.VALID)


def counted(committed: int, term: int, *, began: int = 2, life: int = 1) -> Run:
    """controller-1 leads term 2 and applies entry 3 of term 1, when it has committed up to ``committed``."""
    it = elected()
    leads(it, 1, (1, 2), commit=began)
    told = {"entry": {"type": "noop"}, "committed": committed, "committed_term": term}
    it.trace("controller-1", "applied", position=2, epoch=1, incarnation=life, value={"entry": {"type": "noop"}})
    it.trace("controller-1", "applied", position=3, epoch=1, incarnation=life, value=told)
    return it


def test_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    found = counted(3, 1).expect(LAW, A.EARLIER_TERM_COMMITTED).anomalies[0]
    assert "had committed entry 3" in found.explanation and "which is of term 1" in found.explanation


def test_the_entry_itself_tells_its_term_whatever_the_leader_says() -> None:
    counted(3, 2).expect(LAW, A.EARLIER_TERM_COMMITTED)


@pytest.mark.parametrize(("committed", "term", "began", "life"), [(4, 2, 2, 1), (3, 1, 3, 1), (3, 1, 2, 2)])
def test_what_its_own_term_commits_what_it_began_with_and_another_life_are_lawful(
    committed: int, term: int, began: int, life: int
) -> None:
    counted(committed, term, began=began, life=life).expect(LAW, validity=Validity.VALID)


def test_it_keeps_the_contract_of_laws() -> None:
    known = registry()
    bad, good = elected(), elected()
    vote(bad, 2, 0)
    vote(good, 2, 1)
    kernels = [known.kernels[number] for number in known.of(LAW)]
    check_law(kernels, bad=[(bad.table(), [A.TWO_VOTES])], near_miss=[good.table()], context=good.context())
