"""Faults count by what they are proven to have done, never by their names; what declares nothing excuses nothing."""

from __future__ import annotations

import dataclasses
from random import Random

import pytest

from chaos import plugins
from chaos.judging.engine import judge_rows
from chaos.plugins import PluginKind
from chaos.verdict import Validity, Verdict
from tests.checkers.histories import Effects, History
from tests.checkers.names import A, L
from tests.checkers.test_clients import over, sending, storm
from tests.views import one_group

BROKERS = ("broker-0", "broker-1", "broker-2")
VIEW = one_group(
    brokers=BROKERS,
    controllers=("controller-0", "controller-1", "controller-2"),
    tier=("store-0",),
    master="broker-1",
    in_sync=BROKERS,
    controller_leader="controller-0",
    newcomers=("broker-3",),
    settled=True,
    zones={"zone-0": BROKERS[:1]},
)
INVENTED = "zap"


def planned(name: str) -> frozenset[str]:
    """The effects that a shipped fault declares, with its default options, or at a broker where these name nobody."""
    module = plugins.load(PluginKind.FAULT, name)
    options_class = plugins.options_class(module)
    nobody = [field.name for field in dataclasses.fields(options_class) if field.default is dataclasses.MISSING]
    hits = {"target": "broker-0"} if "target" in nobody else {}
    injection = module.create(options_class(**hits)).plan(VIEW, Random(1), "t")
    assert injection.effects is not None, f"{name} declares no effects"
    return frozenset(map(str, injection.effects))


def alike() -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Sets of effects, each with the shipped faults that declare just these."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name in plugins.names(PluginKind.FAULT):
        found.setdefault(tuple(sorted(planned(name))), []).append(name)
    return [(effects, tuple(names)) for effects, names in sorted(found.items())]


def silence(name: str, effects: Effects | None, proven: Effects | None = None) -> History:
    """14 s without an acknowledgement while a fault is in force, and service before and after it."""
    history = storm(("ok", 3))
    process = history.inject(name, "broker-0", effects=effects)
    if proven is not None:
        asked = history.rows[-1]
        asked["value"] = asked["value"].replace(asked["value"][asked["value"].index('"proven"') :], '"proven": {}}')
    sending(history, "info", 14)
    history.undo(name, process, proven)
    sending(history, "ok", 3)
    return over(history)


def verdicts(history: History) -> tuple[Verdict, ...]:
    return judge_rows([("all-0", history.table())], history.context())


@pytest.mark.parametrize(("effects", "names"), alike())
def test_histories_that_differ_in_the_name_of_the_fault_alone_get_one_verdict(
    effects: tuple[str, ...], names: tuple[str, ...]
) -> None:
    hit = {effect: ["broker-0"] for effect in effects}
    first, *others = [verdicts(silence(name, hit)) for name in (*names, INVENTED)]
    assert all(other == first for other in others)


@pytest.mark.parametrize(
    ("effects", "validity"),
    [
        ({"takes_down": ["broker-0"], "may_crash": ["broker-0"]}, Validity.INVALID),
        ({}, Validity.INVALID),
        ({"slows": ["broker-0"]}, Validity.VALID),
        ({"takes_down": ["broker-0", "broker-1"]}, Validity.VALID),
        (None, Validity.UNKNOWN),
    ],
)
def test_a_slave_hit_and_silence_are_judged_by_the_effects(effects: Effects | None, validity: Validity) -> None:
    for name in ("restart", INVENTED):
        found = silence(name, effects).expect(L.AVAILABILITY, *([A.UNAVAILABLE] if validity == "INVALID" else ()))
        assert found.validity is validity
    if effects is None:
        assert "declares no effects" in found.why


def test_what_is_declared_and_not_proven_excuses_nothing() -> None:
    slow: Effects = {"slows": ["broker-0"]}
    silence("slow_link", slow, proven={}).expect(L.AVAILABILITY, A.UNAVAILABLE)
    silence("slow_link", slow, proven=slow).expect(L.AVAILABILITY, validity=Validity.VALID)  # shown by its undo


def test_a_fault_without_declared_effects_is_no_evidence_that_service_was_owed() -> None:
    history = storm()
    process = history.inject("zap", "broker-0", effects=None)
    sending(history, "ok", 14)
    history.undo("zap", process)
    assert over(history).expect(L.AVAILABILITY).counts["service_owed_ms"] < 100


def test_a_harmless_fault_begins_no_new_bound() -> None:
    history = storm(("ok", 3))
    for _ in range(3):
        sending(history, "info", 4)
        history.undo("noop", history.inject("noop"))
    sending(history, "ok", 3)
    over(history).expect(L.AVAILABILITY, A.UNAVAILABLE)
