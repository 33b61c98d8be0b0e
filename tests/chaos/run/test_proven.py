"""What counts as proof of a declared effect, and what contradicts it."""

from __future__ import annotations

import pytest

from chaos.fault import Effect, Effects, Injection, on
from chaos.run.proven import beyond, by_action, by_hits, by_injection, merged

DOWN, CRASH, LOST = Effect.TAKES_DOWN, Effect.MAY_CRASH, Effect.LOSES_DISK
CLIENTS = Effect.CUTS_CLIENTS


def planned(effects: Effects | None, concerns: dict[str, tuple[str, ...]] | None = None) -> Injection:
    return Injection(targets=("a", "b"), effects=effects, concerns=concerns or {})


@pytest.mark.parametrize(
    ("proof", "probe", "expected"),
    [
        ({"a": {}}, {}, {DOWN: ("a",), CRASH: ("a",), LOST: ("a",)}),
        ({}, {}, {}),
        ({"a": {}}, {"answers": {"a": True}}, {CRASH: ("a",), LOST: ("a",)}),
        ({"a": {}}, {"answers": {"a": False, "b": False}}, {DOWN: ("a", "b"), CRASH: ("a",), LOST: ("a",)}),
        ({"a": {"orderly": True}, "b": {"orderly": False}}, {}, {DOWN: ("a", "b"), CRASH: ("b",), LOST: ("a", "b")}),
    ],
)
def test_each_target_must_have_been_hit_and_one_that_answers_is_not_down(
    proof: dict[str, object], probe: dict[str, object], expected: Effects
) -> None:
    assert by_injection(planned(on(("a", "b"), DOWN, CRASH, LOST)), proof, probe) == expected


@pytest.mark.parametrize(
    ("across", "expected"),
    [
        ({"a > c": False, "c > b": False}, {Effect.ISOLATES: ("a", "b"), Effect.CUTS: ("a", "b")}),
        ({"a > c": False, "d > a": True}, {Effect.CUTS: ("a",)}),
        ({"a > c": True}, {}),
        ({"client > a": False}, {CLIENTS: ("a",)}),
        ({"client > a": False, "c > a": True}, {CLIENTS: ("a",)}),
    ],
)
def test_connections_that_fail_prove_cuts_and_only_for_those_at_their_ends(
    across: dict[str, bool], expected: Effects
) -> None:
    injection = planned(on(("a", "b"), Effect.ISOLATES, Effect.CUTS, CLIENTS))
    assert by_injection(injection, {"rules": ["r"]}, {"across": across}) == expected


def test_rules_that_hit_prove_what_they_concern_unless_the_probe_saw_otherwise() -> None:
    slow = planned(on(("a", "b"), Effect.SLOWS, CRASH, DOWN, LOST), {"r-a": ("a",), "r-b": ("b",)})
    assert by_hits(slow, ["r-b"], {}) == {Effect.SLOWS: ("b",), CRASH: ("b",)}
    assert by_hits(slow, [], {}) == {}
    assert by_hits(planned(on(("a", "b"), Effect.SLOWS)), ["r"], {}) == {Effect.SLOWS: ("a", "b")}
    cut = planned(on(("a", "b"), Effect.ISOLATES))
    assert by_hits(cut, ["r"], {"across": {"a > c": True}}) == {Effect.ISOLATES: ("b",)}


def test_what_a_fault_does_while_it_lasts_proves_only_what_it_says() -> None:
    injection = planned(on(("a", "b"), DOWN, LOST))
    assert by_action(injection, {"a": {}}, [DOWN]) == {DOWN: ("a",)}
    assert by_action(injection, {"a": {}, "c": {}}, [*Effect]) == {DOWN: ("a",), LOST: ("a",)}


def test_undeclared_effects_are_never_proven() -> None:
    for effects in (None, {}):
        assert by_injection(planned(effects), {"a": {}}, {"answers": {"a": False}}) == {}


def test_effects_add_up_in_the_order_of_their_declaration() -> None:
    injection = planned(on(("b", "a"), DOWN, LOST))
    both = merged(injection, {LOST: ("a",)}, {DOWN: ("a", "b")})
    assert list(both.items()) == [(DOWN, ("b", "a")), (LOST, ("a",))]
    assert beyond(both, {DOWN: ("a",)}) == {DOWN: ("b",), LOST: ("a",)} and beyond(both, both) == {}
