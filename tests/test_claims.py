"""The table of docs/claims.md: each claim's experiment is VALID, its planted bug breaks the promise that the table
names, and what it says of RocketMQ is what was recorded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.mutants import EXPERIMENTS, run
from chaos.verdict import Validity
from reference.mutants import MUTANTS
from tests.checkers.names import LAWS

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "claims.md").read_text("utf-8")
RECORDED = (ROOT / "benchmarks" / "results" / "rocketmq.md").read_text("utf-8")
#: All sentences of COMDEV-513, and all of RIP-44.
ASKED = [*(f"C{number}" for number in range(1, 10)), *(f"R{number}" for number in range(1, 10))]
#: Of these the runs take two thirds of the time of all.
LONG = ("replaced_uploader", "empty_slave", "tier_retention", "embedded_controllers")
FULL = pytest.mark.full


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A row of the table. ``valid``: with the seeds 1 to this the experiment was VALID; ``found``: with the seeds 1 to
    this the bug was found. ``experiment`` is empty where the page says what holds instead."""

    name: str
    experiment: str
    bug: str
    law: str
    valid: int
    found: int


def cells() -> list[list[str]]:
    """Return the cells of the rows whose first one is a sentence's number."""
    rows = [line for line in PAGE.splitlines() if re.match(r"\| [CR]\d \|", line)]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def claim(row: list[str]) -> Claim:
    """Read a row. A part that is not written as the table has it fails here."""
    name, _, experiment, planted, here, _ = row
    if not experiment.startswith("`"):
        assert (planted, here) == ("–", "–"), name
        return Claim(name=name, experiment="", bug="", law="", valid=0, found=0)
    bug, law = re.fullmatch(r"`([\w-]+)`: ([\w-]+)", planted).groups()  # type: ignore[union-attr]
    valid, found = re.fullmatch(r"1 to (\d+); bug 1 to (\d+)", here).groups()  # type: ignore[union-attr]
    return Claim(name=name, experiment=experiment.strip("`"), bug=bug, law=law, valid=int(valid), found=int(found))


CLAIMS = [claim(row) for row in cells()]
SHOWN = [one for one in CLAIMS if one.experiment]


def broken(one: Claim, bug: str, seed: int) -> tuple[Validity, list[str]]:
    verdict = run(one.experiment, bug, seed)
    return verdict.validity, [str(law.law) for law in verdict.laws if law.validity is Validity.INVALID]


def test_the_table_has_each_sentence_once() -> None:
    assert [one.name for one in CLAIMS] == ASKED


def test_the_table_names_what_there_is() -> None:
    assert {one.experiment for one in SHOWN} <= {*EXPERIMENTS}
    assert {one.bug for one in SHOWN} <= {planted.name for planted in MUTANTS}
    assert {one.law for one in SHOWN} <= {*LAWS}
    assert len({one.bug for one in SHOWN}) == len({one.experiment for one in SHOWN}) == len(SHOWN) >= 12
    assert {*LONG} <= {one.experiment for one in SHOWN}
    assert all(min(one.valid, one.found) >= 5 for one in SHOWN)


PARAMS = [pytest.param(one, id=one.name, marks=FULL if one.experiment in LONG else ()) for one in SHOWN]


@pytest.mark.parametrize("one", PARAMS)
def test_a_claim_is_kept_and_its_bug_breaks_it(one: Claim) -> None:
    assert broken(one, "", 1) == (Validity.VALID, [])
    validity, laws = broken(one, one.bug, 1)
    assert validity is Validity.INVALID and one.law in laws, laws


@pytest.mark.full
@pytest.mark.parametrize("one", SHOWN, ids=lambda one: one.name)
def test_it_is_so_with_all_seeds_that_the_table_names(one: Claim) -> None:
    valid = [broken(one, "", seed)[0] for seed in range(1, one.valid + 1)]
    found = [one.law in broken(one, one.bug, seed)[1] for seed in range(1, one.found + 1)]
    assert (valid, found) == ([Validity.VALID] * one.valid, [True] * one.found)


def recorded(experiment: str, law: str) -> tuple[str, str]:
    """Return how many runs of an experiment on RocketMQ 5.5.0 there are, and the cell of a promise."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in RECORDED.splitlines()]
    heads = next(row for row in rows if row[0] == "experiment")
    (row,) = [row for row in rows if row[0] == f"`{experiment}`" and row[1] == "5.5.0"]
    return row[2], row[heads.index(law)]


def hold_to_records(text: str) -> None:
    """Fail unless each run on RocketMQ that a cell speaks of came out as it says, and it says something."""
    told = re.findall(r"`rocketmq/(\w+)`: ([\w-]+) (INVALID (\d+/\d+)|never INVALID, (\d+) runs?)", text)
    assert len(told) == text.count("`rocketmq/") and (told or re.match(r"not (there|run)|–", text)), text
    for experiment, law, _, rate, runs in told:
        found = recorded(experiment, law)
        assert found[1] == rate if rate else found == (runs, "–"), (experiment, law, found)


@pytest.mark.parametrize("row", cells(), ids=lambda row: row[0])
def test_what_is_said_of_rocketmq_was_recorded(row: list[str]) -> None:
    hold_to_records(row[-1])


@pytest.mark.parametrize(
    "text",
    [
        "`rocketmq/tier_shared`: tier-metadata INVALID 3/4",
        "`rocketmq/tier_shared`: tier-metadata never INVALID, 4 runs",
        "`rocketmq/tier_control`: tier-continuity never INVALID, 13 runs",
        "`rocketmq/tier_control`: single-uploader never INVALID, 12 runs",  # not applicable there
        "`rocketmq/tier_control`: tier-continuity is fine",
        "no words",
    ],
)
def test_what_was_not_recorded_is_seen(text: str) -> None:
    with pytest.raises(AssertionError):
        hold_to_records(text)
