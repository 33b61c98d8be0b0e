"""What transactions over lists and registers show, in the smallest histories that show it, and in ones that look alike
and show nothing."""

from __future__ import annotations

import pytest

from chaos.testing.laws import check_law
from chaos.verdict import Validity
from checkers.isolation.keys import Keys
from tests.checkers.isolation.keyed import CONTEXT, Keyed


def at_once(*transactions: list[list[object]]) -> Keyed:
    history = Keyed()
    history.together(*transactions)
    return history


def one_by_one(*transactions: list[list[object]]) -> Keyed:
    history = Keyed()
    for number, steps in enumerate(transactions):
        history.txn(*steps, process=f"p{number}.0")
    return history


def a(key: str, value: object) -> list[object]:
    return ["append", key, value]


def w(key: str, value: object) -> list[object]:
    return ["w", key, value]


def r(key: str, value: object) -> list[object]:
    return ["r", key, value]


def with_aborted(steps: list[object], *read: list[object]) -> Keyed:
    history = Keyed()
    history.txn(steps, type="fail")
    history.txn(*read)
    return history


#: Two lists in which two transactions stand in different orders, as a third one sees them.
G0 = ([a("x", 1), a("y", 1)], [a("x", 2), a("y", 2)], [r("x", [1, 2]), r("y", [2, 1])])
BAD = [
    (at_once(*G0), ["G0"]),
    (at_once([a("x", 1), r("y", [2])], [a("y", 2), r("x", [1])]), ["G1c"]),
    (at_once([r("x", []), a("y", 1)], [r("y", []), a("x", 2)]), ["G2-item"]),
    (at_once([a("x", 1), a("y", 1)], [r("x", [1]), r("y", [])]), ["G-single"]),
    (at_once([r("x", []), a("x", 1)], [r("x", []), a("x", 2)], [r("x", [1, 2])]), ["G-single", "lost-update"]),
    (one_by_one([a("x", 1)], [r("x", [])]), ["G-single-realtime"]),
    (one_by_one([a("x", 1)], [a("x", 2)], [r("x", [2, 1])]), ["G0-realtime"]),
    (one_by_one([r("x", [1])], [a("x", 1)]), ["G1c-realtime"]),
    (with_aborted(a("x", 1), r("x", [1])), ["G1a"]),
    (at_once([a("x", 1), a("x", 2)], [r("x", [1])]), ["G-single", "G1b"]),
    (at_once([a("x", 1), r("x", [])]), ["internal"]),
    (at_once([r("x", [1]), a("x", 1)]), ["internal"]),
    (at_once([a("x", 1)], [a("x", 2)], [r("x", [1])], [r("x", [2])]), ["incompatible-order"]),
    (at_once([a("x", 1)], [r("x", [1, 1])]), ["duplicate-elements"]),
    (at_once([a("x", 1)], [r("x", [1, 7])]), ["unwritten"]),
    # Registers
    (at_once([w("x", 1), r("y", 2)], [w("y", 2), r("x", 1)]), ["G1c"]),
    (at_once([r("x", None), w("y", 1)], [r("y", None), w("x", 2)]), ["G2-item"]),
    (at_once([w("x", 1), w("y", 1)], [r("x", 1), r("y", None)]), ["G-single"]),
    (one_by_one([w("x", 1)], [r("x", None)]), ["G-single-realtime"]),
    (at_once([w("x", 1)], [r("x", 1), w("x", 2)], [r("x", 1), w("x", 3)]), ["G2-item", "lost-update"]),
    (with_aborted(w("x", 1), r("x", 1)), ["G1a"]),
    (at_once([w("x", 1), w("x", 2)], [r("x", 1)]), ["G-single", "G1b"]),
    (at_once([w("x", 1), r("x", 2)], [w("x", 2)]), ["internal"]),
    (at_once([r("x", 1), w("x", 1)]), ["internal"]),
    (at_once([r("x", 1), w("x", 2)], [r("x", 2), w("x", 1)]), ["cyclic-versions", "G1c"]),
    (at_once([w("x", 1)], [r("x", 7)]), ["unwritten"]),
]
NEAR_MISS = [
    at_once(*G0[:2], [r("x", [1, 2]), r("y", [1, 2])]),
    at_once([a("x", 1), r("y", [])], [a("y", 2), r("x", [1])]),
    at_once([r("x", []), a("y", 1)], [r("y", [1]), a("x", 2)]),
    at_once([a("x", 1), a("y", 1)], [r("x", [1]), r("y", [1])], [r("x", []), r("y", [])]),
    at_once([r("x", []), a("x", 1)], [r("x", [1]), a("x", 2)], [r("x", [1, 2])]),
    at_once([a("x", 1)], [r("x", [])]),
    at_once([a("x", 1), a("x", 2), r("x", [1, 2])], [r("x", [1, 2])]),
    one_by_one([a("x", 1)], [a("x", 2)], [r("x", [1, 2])]),
    with_aborted(a("x", 1), r("x", [])),
    at_once([w("x", 1), r("x", 1), w("x", 2)], [r("x", 2)]),
    at_once([w("x", 1)], [r("x", 1), w("x", 2)], [r("x", 2), w("x", 3)]),
    one_by_one([r("x", None), w("x", 1)], [r("x", 1), w("y", 1)], [r("y", 1), r("x", 1)]),
]


def test_the_law_keeps_its_contract() -> None:
    bad = [(history.table(), names) for history, names in BAD]
    check_law(Keys(), bad=bad, near_miss=[history.table() for history in NEAR_MISS], context=CONTEXT)


def test_one_whose_end_is_unknown_was_committed_if_somebody_read_of_it() -> None:
    history = Keyed()
    history.txn(a("x", 1), a("y", 1), type="info")
    history.txn(r("x", [1]), r("y", []))
    assert history.names() == {"G-single"}
    other = Keyed()
    other.txn(a("x", 1), a("y", 1), type="info")
    other.txn(r("x", []), r("y", []))
    assert other.judge().validity is Validity.VALID


def test_the_order_of_one_client_is_part_of_a_cycle() -> None:
    history = Keyed()
    history.txn(a("x", 1))
    history.txn(r("x", []))
    assert history.names() == {"G-single-process"}


@pytest.mark.parametrize(
    ("level", "names"),
    [
        ("strict-serializable", {"G-single-realtime", "G2-item", "G0"}),
        ("serializable", {"G2-item", "G0"}),
        ("snapshot-isolation", {"G0"}),
        ("read-committed", {"G0"}),
        ("log", set()),
    ],
)
def test_a_level_of_isolation_rules_out_what_is_its_own(level: str, names: set[str]) -> None:
    history = Keyed(level)
    history.together([r("u", []), a("v", 1)], [r("v", []), a("u", 2)])
    history.together(*([[one, key, value] for one, key, value in steps] for steps in G0))
    history.txn(a("z", 1), process="q.0")
    history.txn(r("z", []), process="q.1")
    assert history.names() == names
    verdict = history.judge()
    if level == "read-committed":
        assert sum(anomaly.count for anomaly in verdict.anomalies if anomaly.lawful) == 2
        assert verdict.counts["allowed_G2-item"] == verdict.counts["allowed_G-single-realtime"] == 1


def test_a_cycle_of_what_was_read_is_a_violation_in_a_log() -> None:
    history = Keyed("log")
    history.together([a("x", 1), r("y", [2])], [a("y", 2), r("x", [1])])
    assert history.names() == {"G1c"}


def test_what_is_not_known_is_said() -> None:
    for level, steps, words in [
        ("loose", [r("x", [])], "no level of isolation"),
        ("", [["append", "x", None]], "are not recorded as such"),
        ("", [["cas", "x", 1]], "are not recorded as such"),
        ("", [a("x", 1), r("x", 5)], "which is no list"),
        ("", [w("x", 1), r("x", [1])], "which is a register"),
    ]:
        history = Keyed(level)
        history.txn(*steps)
        history.txn(r("z", []))
        verdict = history.judge()
        assert verdict.validity is Validity.UNKNOWN and words in verdict.why, verdict
    twice = one_by_one([a("x", 1)], [a("x", 1)], [r("x", [1, 1])]).judge()
    assert twice.validity is Validity.UNKNOWN and "twice" in twice.why


def test_transactions_that_read_nothing_show_nothing() -> None:
    assert one_by_one([a("x", 1)]).judge().validity is Validity.UNKNOWN


def test_values_of_any_kind_are_told_apart() -> None:
    values: list[object] = [1, "1", True, 1.5, {"a": 1}, "</td>"]
    good = one_by_one(*([a("x", value)] for value in values), [r("x", values)])
    assert good.judge().validity is Validity.VALID
    bad = at_once([a(["k"], "<b>"), a("y" * 99, 1)], [r(["k"], ["<b>"]), r("y" * 99, [])])
    (found,) = bad.judge().anomalies
    assert found.name == "G-single" and "…" in found.explanation and len(found.rows) == 4
    (one, two) = found.cycle
    assert (one.after, two.after) == (two.before, one.before) and '"<b>" in key ["k"]' in (one.shown, two.shown)
