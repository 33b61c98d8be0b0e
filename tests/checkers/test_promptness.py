"""Who is elected is elected at once and told at once, and no SyncStateSet is changed without need."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.controller_runs import CONTROLLERS, Run, death, run
from tests.checkers.histories import BROKERS
from tests.checkers.names import A, L

LAW = L.CONTROLLERS


@pytest.mark.parametrize("seconds, names", [(0.4, []), (1.2, [A.LATE_ELECTION]), (0, [A.LATE_ELECTION])])
def test_a_master_that_died_is_replaced_at_once(seconds: float, names: list[str]) -> None:
    it = run()
    it.alter(*BROKERS)
    it.wait(20)
    death(it, elected_after_s=seconds)
    it.expect(LAW, *names)


@pytest.mark.parametrize("seconds, names", [(2.5, []), (2.8, [A.LATE_ELECTION])])
def test_what_is_due_at_once_may_take_the_jitter_of_its_messages_longer(seconds: float, names: list[str]) -> None:
    it = run(jitter_s=0.25)
    it.alter(*BROKERS)
    it.wait(20)
    death(it, elected_after_s=seconds)
    it.expect(LAW, *names)


def test_nobody_is_due_at_once_for_a_master_that_is_silent_or_was_alone_or_was_elected_lately() -> None:
    silent, alone, lately = run(), run(), run()
    silent.alter(*BROKERS)
    silent.wait(20)
    death(silent, name="pause")
    death(alone)  # the set is {broker-0}
    lately.wait(20)
    lately.alter(*BROKERS)
    death(lately)
    for it in (silent, alone, lately):
        it.expect(LAW, validity=Validity.VALID)


def test_controllers_that_have_much_to_do_may_elect_later() -> None:
    it = run()
    it.alter(*BROKERS)
    it.wait(20)
    it.inject("kill", "broker-0")
    for _ in range(21):
        it.entry({"type": "noop"})
    it.wait(3)
    it.phase("heal")
    it.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize("hindered", ["others", "link", "controller", "leader", "started"])
def test_what_hinders_an_election_excuses_that_it_is_late(hindered: str) -> None:
    it = run()
    it.alter(*BROKERS)
    it.wait(20)
    if hindered == "link":
        it.undo("slow_link", it.inject("slow_link", "broker-0"))
    elif hindered == "controller":
        it.undo("slow_link", it.inject("slow_link", "controller-2"))
    elif hindered == "leader":
        it.inject("leader_transfer", "controller-1", effects={"switches_master": ["controller-1"]})
        it.leads("controller-1", 2)
        it.wait(8)
    elif hindered == "started":
        for node in BROKERS[1:]:
            it.trace(node, "start", value={"generation": 2})
    death(it, *(BROKERS[1:] if hindered == "others" else ()))
    it.expect(LAW, validity=Validity.VALID)


def _led_since_the_load(silence_ms: int) -> Run:
    """A master that may be silent for so long, and a controller that leads from the load's beginning on."""
    it = Run(meta={"controllers": list(CONTROLLERS), "uses": ["objects"]})
    it.phase("load")
    it.elect("broker-0", 1, bootstrap=True, silence_ms=silence_ms)
    it.alter(*BROKERS)
    it.leads("controller-0", 1)
    it.ask("read")
    return it


@pytest.mark.parametrize("led_s, silence_ms, names", [(7, 1500, [A.LATE_ELECTION]), (7, 7000, []), (7, 0, [])])
def test_a_new_leader_waits_for_a_master_as_long_as_that_may_be_silent(
    led_s: float, silence_ms: int, names: list[str]
) -> None:
    it = _led_since_the_load(silence_ms)
    it.wait(led_s)
    death(it)
    it.expect(LAW, *names)


@pytest.mark.parametrize("silence_ms, names", [(1500, [A.LATE_ELECTION]), (9000, [])])
def test_a_clock_that_was_slow_makes_the_patience_of_a_leader_longer(silence_ms: int, names: list[str]) -> None:
    it = _led_since_the_load(silence_ms)
    slow = it.inject("clock", "controller-0", effects={"skews_clocks": ["controller-0"]})
    it.wait(8)
    it.undo("clock", slow)
    it.wait(4)
    death(it)
    it.expect(LAW, *names)


@pytest.mark.parametrize("seconds, names", [(0.3, []), (1.5, [A.LATE_ELECTION]), (0, [A.LATE_ELECTION])])
def test_who_was_elected_is_told_at_once(seconds: float, names: list[str]) -> None:
    it = run()
    it.master("broker-0", 1)
    it.alter(*BROKERS)
    it.wait(20)
    it.inject("switch", "broker-1", effects={"switches_master": ["broker-1"]})
    it.elect("broker-1", 2)
    it.wait(seconds)
    if seconds:
        it.master("broker-1", 2)
    it.wait(5)
    it.phase("heal")
    it.expect(LAW, *names)


def test_who_was_elected_and_deposed_again_need_not_know_nor_where_no_broker_tells_its_role() -> None:
    deposed, untold = run(), run()
    deposed.master("broker-0", 1)
    for it in (deposed, untold):
        it.wait(20)
        it.inject("switch", "broker-1", effects={"switches_master": ["broker-1"]})
        it.elect("broker-1", 2)
    deposed.elect("broker-2", 3)
    deposed.master("broker-2", 3)
    for it in (deposed, untold):
        it.wait(5)
        it.phase("heal")
        it.expect(LAW, validity=Validity.VALID)


def test_no_replica_leaves_the_set_without_a_cause() -> None:
    it, slow, usual, jittery = run(), run(), run(jitter_s=0.0004), run(jitter_s=0.25)
    for one in (it, slow, usual, jittery):
        one.alter(*BROKERS)
        one.wait(20)
    slow.inject("slow_link", "broker-2")
    for one, names in ((it, [A.NEEDLESS_CHANGE]), (slow, []), (usual, [A.NEEDLESS_CHANGE]), (jittery, [])):
        one.alter(*BROKERS[:2])
        one.expect(LAW, *names)


def test_a_set_is_not_changed_again_and_again_to_what_it_was() -> None:
    it = run()
    for _ in range(4):
        it.alter(*BROKERS)
    it.expect(LAW, validity=Validity.VALID)
    it.alter(*BROKERS)
    it.expect(LAW, A.NEEDLESS_CHANGE)


def test_a_master_asks_by_an_unchanged_set_how_the_set_stands_after_a_fault() -> None:
    it = run()
    for _ in range(6):
        process = it.inject("slow_link", "controller-1")
        it.wait(2)
        it.alter(*BROKERS)
        it.undo("slow_link", process)
    it.expect(LAW, validity=Validity.VALID)


@pytest.mark.parametrize("elected_after_s, names", [(5, []), (11, []), (0, [A.LATE_ELECTION])])
def test_what_hindered_an_election_is_an_excuse_until_it_is_long_over(elected_after_s: float, names: list[str]) -> None:
    it = run()
    it.alter(*BROKERS)
    it.wait(20)
    it.undo("slow_link", it.inject("slow_link", "controller-2"))
    it.inject("kill", "broker-0")
    if elected_after_s:
        it.wait(elected_after_s)
        it.elect("broker-1", 2)
    it.wait(15)
    it.phase("heal")
    it.expect(LAW, *names)


@pytest.mark.parametrize("seconds, names", [(5, []), (0, [A.LATE_ELECTION])])
def test_who_was_elected_takes_the_role_when_what_hindered_it_is_long_over(seconds: float, names: list[str]) -> None:
    it = run()
    it.master("broker-0", 1)
    it.alter(*BROKERS)
    it.wait(20)
    it.undo("slow_link", it.inject("slow_link", "broker-1"))
    it.inject("switch", "broker-1", effects={"switches_master": ["broker-1"]})
    it.elect("broker-1", 2)
    it.wait(seconds)
    if seconds:
        it.master("broker-1", 2)
    it.wait(15)
    it.phase("heal")
    it.expect(LAW, *names)
