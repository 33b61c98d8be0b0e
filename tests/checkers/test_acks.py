"""What a member is said to have acknowledged, its disk has held; who joins has all that is confirmed."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judging.registry import registry
from chaos.judging.shard import Shard
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from checkers._facts.nodes.acks import highest_appends
from tests.checkers.histories import BROKERS, SIZE, History, table_of
from tests.checkers.names import A, L
from tests.checkers.test_in_sync import begun

LAW = L.IN_SYNC


def confirms(history: History, position: int, **acks: int) -> None:
    """broker-0 confirms a position by what broker-N (``bN``) is said to have acknowledged."""
    named = {f"broker-{name[1:]}": end for name, end in acks.items()}
    value = {"set": ["broker-0"], "proposed": [], "set_epoch": 1, "acks": {"broker-0": position} | named}
    history.trace("broker-0", "confirm", epoch=1, position=position, value=value)


def proposes(history: History, acked: int, confirm: int | None) -> None:
    told: dict[str, Any] = {"acks": {"broker-1": acked}} | ({} if confirm is None else {"confirm": confirm})
    value = {"set": ["broker-0"], "proposed": ["broker-1"], "set_epoch": 1, **told}
    history.trace("broker-0", "set", epoch=1, value=value)


@pytest.mark.parametrize("deployment", ["sim", "process"])
@pytest.mark.parametrize("profile", [{}, {"acks": "master", "min_in_sync": 1}, {"acks": 2}])
def test_an_acknowledgement_beyond_the_disk_is_false_under_each_profile(profile: Any, deployment: str) -> None:
    history = begun()
    history.meta |= {"profile": profile, "deployment": deployment}
    confirms(history, SIZE, b1=2 * SIZE)
    history.expect(LAW, validity=Validity.VALID)
    confirms(history, SIZE, b1=3 * SIZE)
    (found,) = history.expect(LAW, A.FALSE_ACK).anomalies
    assert (
        "counted broker-1 as having acknowledged position 300" in found.explanation and "up to 200" in found.explanation
    )


@pytest.mark.parametrize(("deployment", "found"), [("sim", True), ("process", False)])
def test_a_disk_that_comes_later_is_too_late_where_there_is_one_clock(deployment: str, found: bool) -> None:
    history = begun()
    history.meta["deployment"] = deployment
    confirms(history, SIZE, b1=3 * SIZE)
    history.trace("broker-1", "synced", position=3 * SIZE)
    history.expect(LAW, *[A.FALSE_ACK] * found)


def test_under_asynchronous_flush_the_log_is_the_witness() -> None:
    history = begun()
    history.meta["profile"] = {"flush": "async"}
    confirms(history, SIZE, b1=3 * SIZE)
    history.expect(LAW, validity=Validity.VALID)
    confirms(history, SIZE, b1=3 * SIZE + 1)
    history.expect(LAW, A.FALSE_ACK)


def test_what_was_cut_off_since_was_there_when_it_was_acknowledged() -> None:
    history = begun()
    history.trace("broker-1", "truncate", position=SIZE, epoch=2)
    confirms(history, SIZE, b1=2 * SIZE)
    history.expect(LAW, validity=Validity.VALID)


def test_what_stands_before_a_cut_and_at_a_base_is_durable() -> None:
    history = begun()
    history.trace("broker-1", "truncate", position=3 * SIZE, epoch=2)
    history.trace("broker-2", "bootstrap", position=9 * SIZE, epoch=2)
    confirms(history, SIZE, b1=3 * SIZE, b2=9 * SIZE)
    history.expect(LAW, validity=Validity.VALID)


def test_a_member_that_tells_nothing_of_its_disk_leaves_a_gap() -> None:
    history = begun()
    confirms(history, SIZE, b1=SIZE, b7=SIZE)
    history.expect(LAW, validity=Validity.UNKNOWN)


def test_who_is_not_known_yet_has_acknowledged_nothing() -> None:
    history = begun()
    value = {"set": ["broker-0"], "set_epoch": 1, "acks": {"broker-0": SIZE, "id:7": -1}}
    history.trace("broker-0", "confirm", epoch=1, position=SIZE, value=value)
    history.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize("deployment", ["sim", "process"])
@pytest.mark.parametrize(("confirm", "found"), [(SIZE, False), (2 * SIZE, True), (None, False)])
def test_who_is_proposed_has_acknowledged_what_is_confirmed(confirm: int | None, found: bool, deployment: str) -> None:
    history = begun()
    history.meta["deployment"] = deployment
    confirms(history, SIZE, b1=SIZE)
    proposes(history, SIZE, confirm)
    verdict = history.expect(LAW, *[A.MEMBER_BEHIND] * found)
    assert found is ("which had acknowledged 100 to it" in str(verdict.anomalies))


def test_a_proposal_is_held_against_the_disk_too() -> None:
    history = begun()
    proposes(history, 3 * SIZE, SIZE)
    history.expect(LAW, A.FALSE_ACK)


def test_the_sieve_keeps_the_last_record_of_each_log() -> None:
    shard = Shard(table_of(begun().rows))
    kept = highest_appends(shard)
    assert [shard.text("node", int(at)) for at in kept] == list(BROKERS)
    assert {int(shard.column("position")[at]) for at in kept} == {2 * SIZE}


def test_it_keeps_the_contract_of_laws() -> None:
    known = registry()
    bad, good = begun(), begun()
    confirms(bad, SIZE, b1=3 * SIZE)
    confirms(good, SIZE, b1=2 * SIZE)
    kernels = [known.kernels[number] for number in known.of(LAW)]
    check_law(kernels, bad=[(bad.table(), [A.FALSE_ACK])], near_miss=[good.table()], context=good.context())
