"""A replica declares no damage that nothing has done, and comes back with the epochs of its durable records."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from chaos.judging.shard import Shard
from chaos.testing.laws import check_law
from checkers.roles.disks import Disks, decisive_rows
from checkers.roles.elections import Elections
from tests.checkers.histories import BROKERS, SIZE, History, table_of
from tests.checkers.names import A, L

LAW = L.ROLES
NODE = "broker-1"
FOUND = (A.DAMAGE_WITHOUT_FAULT, A.EPOCHS_FORGOTTEN)


def starts(history: History, life: int, *, disk: str = "d", generation: int = 0, epoch: int = 9) -> None:
    told = {"generation": generation or life, "disk": disk}
    history.trace(NODE, "start", incarnation=life, epoch=epoch, value=told)


def recovers(history: History, life: int, end: int, epochs: list[list[int]], first: int = 0) -> None:
    told = {"first": first, "confirm": 0, "epochs": epochs}
    history.trace(NODE, "recovered", incarnation=life, position=end, value=told)


def run(synced: int = 3) -> History:
    """One life that read an empty log, and called that many records durable: two of epoch 1, the others of epoch 2."""
    history = History()
    history.master("broker-0", 1)
    told = {"type": "elect", "group": "g", "master": "broker-0", "master_epoch": 1, "bootstrap": True}
    told |= {"set": list(BROKERS), "set_epoch": 1, "previous_set": []}
    history.trace("controller-0", "applied", position=1, epoch=1, value={"entry": told})
    history.phase("load")
    starts(history, 1)
    recovers(history, 1, 0, [])
    for sequence in range(4):
        history.append(NODE, sequence, epoch=1 + sequence // 2)
    if synced:
        history.trace(NODE, "synced", position=synced * SIZE)
    return history


def names(history: History) -> list[str]:
    return [one.name for one in history.verdict(LAW).anomalies if one.name in FOUND]


def declares(history: History, life: int = 2) -> None:
    """It finds its disk damaged, and begins anew as another replica."""
    starts(history, life)
    history.trace(NODE, "damaged", incarnation=life, position=SIZE)
    starts(history, life, disk="new", generation=1)
    recovers(history, life, 0, [])


def test_damage_that_nothing_has_done_is_found() -> None:
    history = run()
    declares(history)
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT]
    found = next(one for one in history.verdict(LAW).anomalies if one.name == A.DAMAGE_WITHOUT_FAULT)
    assert "broker-1 found its disk damaged" in found.explanation and "up to position 300" in found.explanation


@pytest.mark.parametrize(
    ("name", "node", "effects", "found"),
    [
        ("wipe", NODE, "usual", False),
        ("wipe", "broker-2", "usual", True),
        ("kill", NODE, "usual", True),
        ("odd", NODE, None, False),
    ],
)
def test_only_a_fault_that_may_have_harmed_this_disk_excuses_it(
    name: str, node: str, effects: Any, found: bool
) -> None:
    history = run()
    history.undo(name, history.inject(name, node, effects=effects))
    declares(history)
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT] * found


def test_a_fault_from_before_the_disk_was_read_to_its_end_excuses_nothing() -> None:
    history = run()
    history.undo("wipe", history.inject("wipe", NODE))
    history.wait(1)
    starts(history, 2)
    recovers(history, 2, 300, [[1, 0], [2, 200]])
    declares(history, 3)
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT]


ASYNC = {"flush": "async"}


@pytest.mark.parametrize(
    ("fault", "confirmed", "end", "profile", "found"),
    [
        ("kill", 4, 3, ASYNC, False),
        ("odd", 4, 3, ASYNC, False),  # it declares no effects, so it may have crashed the replica
        ("kill", 3, 3, ASYNC, True),  # no confirmed record is gone
        ("kill", 4, 2, ASYNC, True),  # a durable one is
        ("kill", 4, 4, ASYNC, True),  # nothing is
        ("kill", 4, 3, {}, True),  # under synchronous flush what is confirmed is durable
        ("pause", 4, 3, ASYNC, True),  # no crash
    ],
)
def test_under_asynchronous_flush_a_crash_may_take_what_was_confirmed_and_not_durable(
    fault: str, confirmed: int, end: int, profile: dict[str, str], found: bool
) -> None:
    history = run(synced=3)
    history.meta["profile"] = profile
    history.confirm(NODE, confirmed * SIZE)
    history.undo(fault, history.inject(fault, NODE, effects=None if fault == "odd" else "usual"))
    starts(history, 2)
    history.trace(NODE, "damaged", incarnation=2, position=end * SIZE)
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT] * found


def test_what_an_earlier_life_confirmed_or_a_cut_took_excuses_no_damage() -> None:
    history = run(synced=3)
    history.meta["profile"] = ASYNC
    history.confirm(NODE, 4 * SIZE)
    starts(history, 2)
    recovers(history, 2, 4 * SIZE, [[1, 0], [2, 200]])
    history.undo("kill", history.inject("kill", NODE))
    starts(history, 3)
    history.trace(NODE, "damaged", incarnation=3, position=4 * SIZE)
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT]
    history = run(synced=3)
    history.meta["profile"] = ASYNC
    history.confirm(NODE, 4 * SIZE)
    history.trace(NODE, "truncate", position=2 * SIZE, epoch=3)
    history.append(NODE, 2, epoch=3)
    history.trace(NODE, "synced", position=3 * SIZE)
    history.undo("kill", history.inject("kill", NODE))
    starts(history, 2)
    history.trace(NODE, "damaged", incarnation=2, position=3 * SIZE)
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT]


def test_what_was_never_called_durable_may_be_gone() -> None:
    history = run(synced=0)
    declares(history)
    assert names(history) == []


@pytest.mark.parametrize(("ended", "found"), [(False, False), (True, True)])
def test_a_cut_that_had_begun_may_leave_less_than_was_noted(ended: bool, found: bool) -> None:
    history = run()
    history.trace(NODE, "truncate", position=2 * SIZE, epoch=3)
    history.trace(NODE, "synced", position=2 * SIZE)  # of a sync that was under way
    if ended:
        history.append(NODE, 2, epoch=3)
        history.trace(NODE, "synced", position=3 * SIZE)
    declares(history)
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT] * found


@pytest.mark.parametrize(("ended", "found"), [(False, False), (True, True)])
def test_a_replica_that_begins_anew_may_lose_all_until_it_has(ended: bool, found: bool) -> None:
    history = run()
    history.trace(NODE, "bootstrap_begun", position=700, epoch=3)
    if ended:
        history.trace(NODE, "bootstrap", position=700, epoch=3, value={"epochs": [[3, 600]]})
    declares(history)
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT] * found


def test_damage_is_told_once_however_often_it_is_declared() -> None:
    history = run()
    starts(history, 2)
    history.trace(NODE, "damaged", incarnation=2, position=SIZE)
    declares(history, 3)
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT]


@pytest.mark.parametrize(("wiped", "found"), [(False, True), (True, False)])
def test_a_disk_that_is_new_without_a_word_is_damage_too(wiped: bool, found: bool) -> None:
    history = run()
    if wiped:
        history.undo("wipe", history.inject("wipe", NODE))
    starts(history, 2, disk="another", generation=1)
    recovers(history, 2, 0, [])
    assert names(history) == [A.DAMAGE_WITHOUT_FAULT] * found


@pytest.mark.parametrize(
    ("end", "epochs", "first", "found"),
    [
        (300, [[1, 0], [2, 200]], 0, False),
        (300, [[1, 0]], 0, True),  # the newest one is not known
        (300, [], 0, True),
        (300, [[1, 0], [3, 200]], 0, True),  # or another one
        (300, [[1, 0], [2, 100]], 0, True),  # or begins elsewhere
        (400, [[1, 0], [2, 200], [3, 300]], 0, False),  # what was not synced, nobody need know
        (200, [[1, 0]], 0, False),  # what is gone has no epoch
        (300, [[2, 200]], 200, False),  # nor what was deleted
    ],
)
def test_epochs_are_those_of_the_records_that_were_synced(
    end: int, epochs: list[list[int]], first: int, found: bool
) -> None:
    history = run()
    starts(history, 2)
    recovers(history, 2, end, epochs, first)
    assert names(history) == [A.EPOCHS_FORGOTTEN] * found


def test_a_cut_takes_epochs_and_a_base_brings_others() -> None:
    history = run()
    history.trace(NODE, "truncate", position=SIZE, epoch=4)
    history.append(NODE, 1, epoch=4)
    history.trace(NODE, "synced", position=2 * SIZE)
    starts(history, 2)
    recovers(history, 2, 200, [[1, 0], [4, 100]])
    history.trace(NODE, "bootstrap_begun", incarnation=2, position=700, epoch=5)
    history.trace(NODE, "bootstrap", incarnation=2, position=700, epoch=5, value={"epochs": [[4, 100], [5, 650]]})
    starts(history, 3)
    recovers(history, 3, 700, [[4, 100], [5, 650]], first=700)
    assert names(history) == []
    starts(history, 4)
    recovers(history, 4, 700, [[4, 100]], first=650)
    assert names(history) == [A.EPOCHS_FORGOTTEN]


@pytest.mark.parametrize("how", ["fault", "disk", "generation"])
def test_a_disk_that_was_taken_has_no_epochs_to_know(how: str) -> None:
    history = run()
    if how == "fault":
        history.undo("wipe", history.inject("wipe", NODE))
    starts(history, 2, disk="e" if how == "disk" else "d", generation=1 if how == "generation" else 2)
    recovers(history, 2, 300, [[7, 0]])
    assert A.EPOCHS_FORGOTTEN not in names(history)


@pytest.mark.parametrize("seed", range(40))
def test_the_sieve_keeps_all_that_is_judged_by(seed: int) -> None:
    """A random life, cut into blocks: what the sieve keeps of each is judged as the whole is."""
    rng = np.random.default_rng(seed)
    history, end, synced, life = run(0), 4, 0, 1
    history.meta["profile"] = ASYNC
    for _ in range(60):
        match int(rng.integers(8)):
            case 0 | 1 | 2:
                history.append(NODE, end, epoch=int(rng.integers(1, 4)), incarnation=life)
                end += 1
            case 3:
                synced = end
                history.trace(NODE, "synced", incarnation=life, position=end * SIZE)
            case 4:
                end = int(rng.integers(0, end + 1))
                history.trace(NODE, "truncate", incarnation=life, position=end * SIZE, epoch=3)
                synced = min(synced, end)
            case 5 | 6:
                history.confirm(NODE, int(rng.integers(0, end + 1)) * SIZE, incarnation=life)
            case _:
                life += 1
                if rng.random() < 0.7:
                    history.undo("kill", history.inject("kill", NODE))
                starts(history, life)
                if rng.random() < 0.5:
                    history.trace(NODE, "damaged", incarnation=life, position=int(rng.integers(0, 3)) and synced * SIZE)
                recovers(history, life, synced * SIZE, [[int(rng.integers(1, 4)), 0]])
                end = synced
    whole = names(history)
    kept = History(meta=history.meta)
    cuts = sorted({0, len(history.rows), *rng.integers(0, len(history.rows), 3).tolist()})
    index: set[int] = set()
    for begin, until in pairwise(cuts):
        index |= _kept(history.rows[begin:until])
    kept.rows = [row for row in history.rows if row["index"] in index]
    assert names(kept) == whole


def _kept(rows: list[dict[str, Any]]) -> set[int]:
    shard = Shard(table_of(rows))
    chosen = {int(shard.column("index")[at]) for at in decisive_rows(shard)}
    often = ("append", "synced", "confirm")
    return chosen | {row["index"] for row in rows if row["kind"] != "trace" or row["f"] not in often}


def test_it_keeps_the_contract_of_laws() -> None:
    bad, good = run(), run(synced=0)
    declares(bad)
    declares(good)
    check_law(
        [Elections(), Disks()],
        bad=[(bad.table(), [A.DAMAGE_WITHOUT_FAULT])],
        near_miss=[good.table()],
        context=good.context(),
    )
