"""A replica remembers its lives, and the epochs that it was master of, as long as nobody harms its disk."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import History
from tests.checkers.names import A, L

ROLES = L.ROLES


def run() -> History:
    history = History()
    history.master("broker-0", 1)
    history.phase("load")
    return history


def life(
    history: History, incarnation: int, generation: int, disk: str = "d", *, read: bool = True, epoch: int = -1
) -> None:
    """``read``: it comes as far as to read its log."""
    told: dict[str, Any] = {"generation": generation, "disk": disk}
    history.trace("broker-1", "start", incarnation=incarnation, epoch=epoch, value=told)
    if read:
        history.trace("broker-1", "recovered", incarnation=incarnation, position=0, value={"first": 0, "confirm": 0})


def names(history: History) -> list[str]:
    return [one.name for one in history.verdict(ROLES).anomalies]


@pytest.mark.parametrize("again", [1, 2])
def test_a_number_that_comes_again_on_the_same_disk_was_forgotten(again: int) -> None:
    history = run()
    life(history, 1, 1)
    life(history, 2, 2)
    life(history, 3, again)
    (found,) = [one for one in history.verdict(ROLES).anomalies if one.name == A.LIFE_FORGOTTEN]
    assert f"began life {again} of its disk" in found.explanation and "in life 2" in found.explanation
    assert len(found.rows) == 2 and history.verdict(ROLES).validity is Validity.INVALID


def test_a_life_that_never_read_its_log_may_be_forgotten_and_another_disk_begins_anew() -> None:
    history = run()
    life(history, 1, 1)
    life(history, 2, 2, read=False)
    life(history, 3, 2)
    life(history, 4, 3)
    life(history, 5, 1, "another")
    assert A.LIFE_FORGOTTEN not in names(history)


@pytest.mark.parametrize(("disk", "found"), [("", True), ("d", False), (None, False)])
def test_a_life_whose_disk_has_no_word_could_be_one_of_any_disk(disk: str | None, found: bool) -> None:
    history = run()
    told: dict[str, Any] = {"generation": 1} | ({} if disk is None else {"disk": disk})
    history.trace("broker-1", "start", incarnation=1, value=told)
    verdict = history.verdict(ROLES)
    words = [one.explanation for one in verdict.anomalies if one.name == A.LIFE_FORGOTTEN]
    assert ["no word for its disk" in one for one in words] == [True] * found


@pytest.mark.parametrize(
    ("name", "node", "excused"), [("wipe", "broker-1", True), ("wipe", "broker-2", False), ("kill", "broker-1", False)]
)
def test_only_a_fault_that_harmed_this_disk_excuses_it(name: str, node: str, excused: bool) -> None:
    history = run()
    life(history, 1, 1)
    history.undo(name, history.inject(name, node))
    life(history, 2, 1)
    assert (A.LIFE_FORGOTTEN not in names(history)) is excused


def term(history: History, incarnation: int, epoch: int, confirmed: int) -> None:
    """A master term that begins at 100, and what is confirmed in it."""
    history.master("broker-1", epoch, start=100, incarnation=incarnation)
    history.confirm("broker-1", confirmed, epoch, incarnation=incarnation)


@pytest.mark.parametrize(
    ("confirmed", "again", "disk", "found"),
    [(200, 4, "d", True), (200, 5, "d", False), (200, 6, "d", False), (200, 4, "new", False), (100, 4, "d", False)],
)
def test_a_life_begins_with_no_older_epoch_than_the_replica_was_master_of(
    confirmed: int, again: int, disk: str, found: bool
) -> None:
    history = run()
    life(history, 1, 1, epoch=4)
    term(history, 1, 5, confirmed)
    life(history, 2, 2, disk, epoch=again)
    assert (A.EPOCH_REGRESSION in names(history)) is found


def test_an_epoch_that_was_lost_with_the_disk_or_known_as_a_slave_may_be_forgotten() -> None:
    history = run()
    life(history, 1, 1, epoch=4)
    term(history, 1, 5, 200)
    history.undo("wipe", history.inject("wipe", "broker-1"))
    life(history, 2, 1, epoch=4)
    history.role("broker-1", "slave", 7, incarnation=2)
    history.confirm("broker-1", 900, 7, incarnation=2)
    life(history, 3, 2, epoch=4)
    assert A.EPOCH_REGRESSION not in names(history) and A.LIFE_FORGOTTEN not in names(history)


@pytest.mark.parametrize(("again", "found"), [(3, False), (2, True)])
def test_what_a_disk_has_learned_since_it_was_harmed_it_must_not_forget(again: int, found: bool) -> None:
    history = run()
    life(history, 1, 1, epoch=4)
    history.undo("wipe", history.inject("wipe", "broker-1"))
    life(history, 2, 1, epoch=3)
    life(history, 3, 2, epoch=3)
    term(history, 3, 7, 200)
    life(history, 4, again, epoch=7)
    assert (A.LIFE_FORGOTTEN in names(history)) is found
    life(history, 5, 4, epoch=6)
    assert A.EPOCH_REGRESSION in names(history)
