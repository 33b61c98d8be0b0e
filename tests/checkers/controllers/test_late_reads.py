"""Each read of an object is answered at once, also while the controllers' leader changes by request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.controller_runs import Run, run
from tests.checkers.names import A, L

LAW = L.CONTROLLERS
BOUND_S = 0.7
TRANSFER = {"switches_master": ["controller-1"]}


def asked(it: Run, took_s: float, *, before_s: float = 0, type: str = "fail") -> Run:
    """A read of controller-1, so long after the last thing that happened."""
    it.wait(before_s)
    it.ask("read", "controller-1", type=type, took_s=took_s)
    return it


@pytest.mark.parametrize("type", ["ok", "fail", "info"])
def test_a_read_is_answered_at_once_be_it_by_a_refusal(type: str) -> None:
    asked(run(), BOUND_S - 0.1, type=type).expect(LAW, validity=Validity.VALID)
    found = asked(run(), BOUND_S + 0.1, type=type).expect(LAW, A.LATE_READ).anomalies[0]
    assert "controller-1 was asked for a read at" in found.explanation and len(found.rows) == 2


def test_messages_that_take_long_take_that_time_besides() -> None:
    asked(run(jitter_s=0.1), BOUND_S + 0.7).expect(LAW, validity=Validity.VALID)
    asked(run(jitter_s=0.1), BOUND_S + 0.9).expect(LAW, A.LATE_READ)


@pytest.mark.parametrize("after_s, is_late", [(0.05, True), (0.2, False)])
def test_the_change_of_a_leader_is_waited_for(after_s: float, is_late: bool) -> None:
    it = run()
    it.undo("leader_transfer", it.inject("leader_transfer", "controller-1", effects=TRANSFER))
    read = it.invoke("read", value={"object": "o", "to": "controller-0"})
    it.wait(after_s)
    it.leads("controller-1", 2)
    it.wait(BOUND_S + 0.1 - after_s + 0.05)
    it.complete(read, "info", node="controller-0")
    it.expect(LAW, *[A.LATE_READ] if is_late else [])


@pytest.mark.parametrize(
    "targets, effects, is_excused",
    [
        (["controller-2"], {"slows": ["controller-2"]}, True),
        (["client"], {"slows": ["client"]}, True),
        (["controller-2"], {"adds_replica": ["controller-2"]}, True),
        (["broker-0"], {"slows": ["broker-0"]}, False),
        (["controller-1"], TRANSFER, False),
    ],
    ids=["a controller is slow", "clients are", "one joins", "a broker is slow", "the leader changes by request"],
)
def test_a_fault_excuses_reads_where_it_touches_controllers_or_clients(
    targets: Sequence[str], effects: Mapping[str, Sequence[str]], is_excused: bool
) -> None:
    for wait_s in (9, 30):
        it = run()
        it.undo("odd", it.inject("odd", *targets, effects={name: [*nodes] for name, nodes in effects.items()}))
        asked(it, 1, before_s=wait_s).expect(LAW, *[] if is_excused and wait_s == 9 else [A.LATE_READ])


def test_what_a_fault_that_declares_nothing_may_have_made_late_is_unknown() -> None:
    it = run()
    it.inject("odd", "broker-0", effects=None)
    assert "a late answer has no cause" in asked(it, 1).expect(LAW, validity=Validity.UNKNOWN).why


def test_a_controller_that_has_just_started_is_not_ready_yet() -> None:
    for node, names in (("controller-1", []), ("broker-1", [A.LATE_READ])):
        it = run()
        it.trace(node, "start", value={"generation": 2})
        asked(it, 1).expect(LAW, *names)


def test_where_many_entries_are_applied_a_read_may_wait_for_them() -> None:
    for entries, names in ((21, []), (20, [A.LATE_READ])):
        it = run()
        read = it.invoke("read", value={"object": "o", "to": "controller-1"})
        for _ in range(entries):
            it.entry({"type": "noop"})
        it.wait(1)
        it.complete(read, node="controller-1")
        it.expect(LAW, *names)


def test_reads_before_the_load_of_others_and_elsewhere_than_in_the_simulator_are_not_judged() -> None:
    early = Run(meta={"controllers": ["controller-0", "controller-1", "controller-2"], "uses": ["objects"]})
    early.leads("controller-0", 1)
    early.elect("broker-0", 1, bootstrap=True)
    early.ask("read", "controller-1", took_s=2)
    early.phase("load")
    early.ask("read", "controller-1")
    early.expect(LAW, validity=Validity.VALID)
    other = run()
    other.ask("read", "broker-1", took_s=2)
    other.expect(LAW, validity=Validity.VALID)
    asked(run(deployment="process"), 2).expect(LAW, validity=Validity.VALID)


def test_it_keeps_the_contract_of_laws() -> None:
    known = registry()
    late, good = asked(run(), 1), asked(run(), 0.6)
    kernels = [known.kernels[number] for number in known.of(LAW)]
    check_law(kernels, bad=[(late.table(), [A.LATE_READ])], near_miss=[good.table()], context=good.context())
