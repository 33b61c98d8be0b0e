"""When two failures are the same."""

from __future__ import annotations

import pytest

from chaos.verdict import Anomaly
from reports.run_report.causes import Cause, Kind, Violation
from reports.run_report.lost_tails import LostTail
from reports.run_report.master_terms import EpochChange
from stormproof.shrinking import signature
from stormproof.shrinking.signature import Origin, Signature

LOST = Signature(law="durability", anomalies=("lost",), origin=Origin.CUT)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (LOST, True),
        (Signature(law="durability", anomalies=("altered", "lost"), origin=Origin.CUT), True),
        (Signature(law="durability", anomalies=("altered",), origin=Origin.CUT), False),
        (Signature(law="order", anomalies=("lost",), origin=Origin.CUT), False),
        (Signature(law="durability", anomalies=("lost",), origin=Origin.FORGOTTEN), False),
    ],
)
def test_a_failure_is_the_same_by_law_anomalies_and_cause(other: Signature, same: bool) -> None:
    assert LOST.kept_by([other]) is same
    assert LOST.kept_by([Signature(law="roles", anomalies=("x",), origin=Origin.ELSE), other]) is same


def test_anomalies_of_two_causes_do_not_make_one_failure() -> None:
    both = Signature(law="durability", anomalies=("altered", "lost"), origin=Origin.CUT)
    apart = [LOST, Signature(law="durability", anomalies=("altered",), origin=Origin.CUT)]
    assert not both.kept_by(apart)


def violation(law: str, name: str) -> Violation:
    return Violation(place=0, anomaly=Anomaly(law=law, name=name, explanation=""))


def tail(*, cut: bool) -> LostTail:
    return LostTail(node="a", at_s=1.0, since_s=0.0, position=0, epoch=1, cut=cut, row=1, records=1)


CHANGE = EpochChange(group="", before=None, after=None)


@pytest.mark.parametrize(
    ("tails", "change", "origin"),
    [
        ([tail(cut=True), tail(cut=False)], CHANGE, Origin.CUT),
        ([tail(cut=False)], CHANGE, Origin.FORGOTTEN),
        ([], CHANGE, Origin.CHANGE),
        ([], None, Origin.ELSE),
    ],
)
def test_a_cause_breaks_each_law_by_its_own_anomalies(
    tails: list[LostTail], change: EpochChange | None, origin: Origin
) -> None:
    found = [violation("durability", "lost"), violation("order", "gap"), violation("durability", "altered")]
    kinds = [Kind(law="durability", name="lost", here=1, listed=1, whole=1)]
    cause = Cause(violations=found, kinds=kinds, change=change, tails=tails)
    assert signature.of_cause(cause) == [
        Signature(law="durability", anomalies=("altered", "lost"), origin=origin),
        Signature(law="order", anomalies=("gap",), origin=origin),
    ]
