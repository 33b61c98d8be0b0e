"""Each planted bug is found by the law that it was planted for, and the correct system stays VALID beside it."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.mutants import EXPERIMENTS, PAGE, run, scenario
from chaos.verdict import Validity
from reference.mutants import MUTANTS, Planted
from stormproof import cli
from stormproof.outcome import ExitCode
from tests.checkers.names import LAWS
from tests.test_split_mutants import LAWS as OF_STORAGE

#: Each mutant must be found with the seed that the list gives, or with one of 1 to this.
MOST_SEEDS = 5
#: With this seed the correct system must be VALID in each scenario; `make seeds` tries many more.
CORRECT_SEED = 1
FULL = pytest.mark.full
#: Of what no system under test has: histories alone prove these laws. Bugs of the
#: split system prove the laws of storage clusters.
ELSEWHERE = ("isolation", "log")
SCENARIOS = sorted({scenario(planted) for planted in MUTANTS})
#: The first planted for each law: these are run in each `make test`. In `make test-full` all are, each by the command
#: that the list of planted bugs gives.
FIRST = tuple({planted.law: planted for planted in reversed(MUTANTS)}.values())
SHORT = sorted({scenario(planted) for planted in FIRST})
#: Of these the page is drawn, too; of all others by that command.
DRAWN = FIRST[::3]


@pytest.mark.parametrize("planted", FIRST, ids=lambda planted: planted.name)
def test_each_law_finds_the_first_that_was_planted_for_it(planted: Planted) -> None:
    seen = []
    for seed in dict.fromkeys((planted.seed, *range(1, MOST_SEEDS + 1))):  # the list's seed shows it at once
        verdict = run(scenario(planted), planted.name, seed, draws=planted in DRAWN)
        broken = [str(law.law) for law in verdict.laws if law.validity is Validity.INVALID]
        if planted.law in broken:
            return
        seen.append(f"seed {seed}: {verdict.validity} {broken}")
    pytest.fail(f"{planted.law} never noticed {planted.name} in {scenario(planted)}: {'; '.join(seen)}")


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in SHORT[::6] else FULL) for one in SCENARIOS])
def test_the_correct_system_is_valid_where_mutants_are_found(name: str) -> None:
    verdict = run(name, "", CORRECT_SEED)
    assert verdict.validity is Validity.VALID, (verdict.anomaly_counts(), verdict.why)


#: With these the list is tried in each `make test`, with all others in `make test-full`.
SAMPLE = ("append-twice", "no-truncation-on-rejoin")


def listed(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    assert cli._run(["list", "mutants", "--json"]) == 0
    return {one["name"]: one["command"] for one in json.loads(capsys.readouterr().out) if one["system"] == "reference"}


@pytest.mark.parametrize(
    "planted",
    [pytest.param(one, marks=() if one.name in SAMPLE else FULL, id=one.name) for one in MUTANTS],
)
def test_the_command_that_the_list_gives_shows_the_bug(
    planted: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run as it stands there, but for where runs are kept and the laws are judged; with its page."""
    program, *words = listed(capsys)[planted.name].split()
    assert program == "stormproof"
    code = cli._run([*words, "--engine", "local", "--out", str(tmp_path)])
    out, err = capsys.readouterr()
    (run,) = tmp_path.iterdir()
    laws = json.loads((run / "verdict.json").read_text())["laws"]
    broken = [one["law"] for one in laws if one["validity"] == "INVALID"]
    assert code in (ExitCode.INVALID, ExitCode.NOT_RECOVERED) and planted.law in broken, (code, broken, err)
    assert "Traceback" not in err and "bug of" not in err
    assert (run / "report.html").is_file() and "  report   " in out


def test_each_law_has_two_mutants_or_more() -> None:
    planted = Counter(mutant.law for mutant in MUTANTS)
    few = {law: planted[law] for law in LAWS if planted[law] < 2 and law not in OF_STORAGE}
    assert few == dict.fromkeys(ELSEWHERE, 0)


def test_the_list_gives_a_seed_that_the_page_has() -> None:
    first = re.findall(r"^\| `([\w-]+)` \|[^|]*\|[^|]*\| (\d+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [(planted.name, str(planted.seed)) for planted in MUTANTS] == first


def test_mutants_have_names_of_their_own_and_scenarios_that_exist() -> None:
    assert len({planted.name for planted in MUTANTS}) == len(MUTANTS)
    assert {*SCENARIOS} <= {*EXPERIMENTS}


def test_the_page_lists_the_mutants_that_there_are() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \| ([\w-]+) \| (\w+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert listed == [(planted.name, planted.law, scenario(planted)) for planted in MUTANTS]


def test_the_page_says_that_each_mutant_was_found() -> None:
    rates = re.findall(r"^\| `([\w-]+)` \|.*\| (\d+)/\d+ \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert [name for name, found in rates if found == "0"] == []
