"""Leaps: small in all at once, the cheapest first, and each of them an experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from chaos.experiment.reader import load
from stormproof.launch import SIM
from stormproof.shipped import experiments
from stormproof.shrinking.document import Document, pinned, seconds, text
from stormproof.shrinking.leaps import beginnings, ends, leap, leaps
from stormproof.shrinking.trial import Trial

ROOT = Path(__file__).parents[3]
EXAMPLES = ["quickstart", "unreplicated_tail", "power_cut"]


def document_of(name: str) -> Document:
    return pinned(load(experiments()[name], deployment=SIM), 1)


def names(document: Document) -> list[str]:
    return [next(iter(entry)) for entry in document.get("faults", ())]


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_leap_is_an_experiment(name: str, tmp_path: Path) -> None:
    whole = document_of(name)
    found, whole_s = [*leaps(whole), *beginnings(whole), *ends(whole)], seconds(whole["duration"])
    assert found
    for number, one in enumerate(found):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text(one), "utf-8")
        assert load(file, deployment=SIM).duration_s <= whole_s


def test_from_none_over_each_kind_and_two_in_a_row_to_all() -> None:
    document = document_of("quickstart")
    found = list(leaps(document))
    assert names(found[0]) == []
    kinds = [names(one) for one in found[1:7]]
    assert kinds == [["kill"], ["partition"], ["switch"], ["pause"], ["partition"], ["clock"]]
    assert [len(names(one)) for one in found[7:14]] == [0, 1, 1, 1, 1, 1, 1], "the same with the whole load"
    pairs = found[14:-1]
    assert [names(one) for one in pairs][:2] == [["kill", "clock"], ["clock", "partition"]]
    assert len(names(found[-1])) == len(names(document)) == 7
    first, second = pairs[0]["faults"]
    assert (first["at"], second["at"]) == ("1s", "6s"), "as far apart as they were: at 3 s and at 8 s"
    assert seconds(pairs[0]["duration"]) == 6 + 14 + 3


def test_the_load_is_a_tenth_and_each_fault_keeps_its_draws() -> None:
    document = document_of("quickstart")
    few = list(leaps(document))[1]
    queue = few["workloads"][0]["queue"]
    assert (queue["producers"], queue["consumers"], queue["rate_per_s"]) == (1, 1, pytest.approx(10.9))
    assert few["faults"][0]["draws"] == document["faults"][0]["draws"]
    assert seconds(few["duration"]) == 1 + 4 + 3


def test_the_first_leap_that_fails_is_taken() -> None:
    document = document_of("quickstart")
    asked: list[Sequence[Document]] = []

    def attempt(candidates: Sequence[Document]) -> int | None:
        asked.append(candidates)
        return next((place for place, one in enumerate(candidates) if names(one) == ["switch"]), None)

    found = leap(document, attempt, Trial())
    assert names(found) == ["switch"] and seconds(found["duration"]) < 5
    assert leap(found, attempt, Trial()) == found and len(asked) == 1, "a short one leaps no more"
    assert leap(document, lambda candidates: None, Trial()) == document


def test_a_run_up_to_each_fault_and_its_last_faults() -> None:
    document = document_of("quickstart")
    found = list(beginnings(document))
    assert [len(names(one)) for one in found] == [1, 4, 5, 6, 6, 7]
    assert [seconds(one["duration"]) for one in found] == [10, 16, 21, 25, 26, 27]
    assert names(found[1]) == ["kill", "partition", "switch", "clock"]
    last = list(ends(found[1]))
    assert [names(one) for one in last] == [["switch"], ["partition", "switch"], ["clock", "partition", "switch"]]
    assert seconds(last[0]["duration"]) == 1 + 3


def test_what_fails_at_a_fault_leaps_to_the_faults_before_it() -> None:
    """Two faults, and the whole load."""

    def attempt(candidates: Sequence[Document]) -> int | None:
        wanted = [
            {"clock", "partition"} <= set(names(one)) and "rate_per_s" not in one["workloads"][0] for one in candidates
        ]
        return wanted.index(True) if True in wanted else None

    found = leap(document_of("quickstart"), attempt, Trial())
    assert names(found) == ["clock", "partition"] and seconds(found["duration"]) < 30


def test_one_fault_at_least_where_that_is_asked_for() -> None:
    assert all(names(one) for one in leaps(document_of("quickstart"), bare=False))
