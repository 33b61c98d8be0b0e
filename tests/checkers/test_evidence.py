"""A law without its evidence is NOT APPLICABLE; what was declared and is missing never makes a run VALID."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from chaos import plugins
from chaos.driver import SELDOM_REPORTED, Evidence, evidence_of
from chaos.judging.evidence import unjudgeable
from chaos.judging.outcome import judge
from chaos.plugins import PluginKind
from chaos.verdict import Engine, RunVerdict, Validity
from reports import render
from tests.checkers.names import L
from tests.checkers.recorded import Recording, Row, recording

#: Who tells the first tells the second too.
TIERS = {Evidence.TIER, Evidence.TIER_CONTENT}
#: What every name of a plug-in begins with after it was renamed.
RENAMED = "renamed_"
#: Evidence → which rows are it, as docs/history.md says.
ROWS: dict[Evidence, Callable[[Row], bool]] = {
    Evidence.OPERATIONS: lambda row: row["kind"] == "op",
    Evidence.POLLS: lambda row: row["kind"] == "poll",
    Evidence.FINAL_LOGS: lambda row: row["kind"] == "final" and row["f"] in ("log", "node", "complete"),
    Evidence.FINAL_METADATA: lambda row: row["kind"] == "final" and row["f"] in ("offsets", "topics"),
    Evidence.CONFIRM: lambda row: (
        row["kind"] == "trace"
        and row["f"] in ("append", "confirm", "acked", "synced", "truncate", "recovered", "start", "bootstrap")
    ),
    Evidence.RETENTION: lambda row: row["f"] == "retention",
    Evidence.ROLES: lambda row: row["kind"] == "trace" and row["f"] in ("role", "set"),
    Evidence.ELECTIONS: lambda row: row["f"] in ("applied", "raft"),
    Evidence.ROUTES: lambda row: row["kind"] == "trace" and row["f"] == "route",
    Evidence.TIER: lambda row: (
        row["f"].startswith(("tier_", "store_"))
        or (row["kind"] == "final" and row["f"] in ("manifest", "tiered", "view"))
    ),
    Evidence.TIER_CONTENT: lambda row: row["kind"] == "final" and row["f"] == "tiered",
}


#: What the reference driver declares.
USUALLY_REPORTED = [one for one in Evidence if one not in SELDOM_REPORTED]


@pytest.fixture(scope="module")
def good() -> Recording:
    return recording().copy()


def verdict(run: Recording, directory: Path) -> RunVerdict:
    return judge([run.write(directory)], engine=Engine.LOCAL)[0]


def judged(run: Recording, directory: Path) -> tuple[RunVerdict, list[str]]:
    """Its verdict, and the words of its report."""
    directory.parent.mkdir()
    found = verdict(run, directory)
    return found, Words(render(directory)).found


def test_the_reference_driver_tells_everything_but_what_its_final_logs_tell_better(good: Recording) -> None:
    module = plugins.load(PluginKind.DRIVER, "reference")
    assert evidence_of(module.create(module.Options())) == set(USUALLY_REPORTED)
    assert evidence_of(module.create(module.Options(tier=False))) == set(USUALLY_REPORTED) - TIERS
    assert good.meta["tells"] == sorted(USUALLY_REPORTED) and set(ROWS) == set(USUALLY_REPORTED)


def test_the_recorded_run_is_valid(good: Recording, tmp_path: Path) -> None:
    assert verdict(good, tmp_path / "run").validity is Validity.VALID


@pytest.mark.parametrize("gone", [one for one in USUALLY_REPORTED if one is not Evidence.RETENTION])
def test_what_was_declared_and_is_missing_never_makes_a_valid_run(
    good: Recording, gone: Evidence, tmp_path: Path
) -> None:
    run = good.copy()
    run.drop(ROWS[gone])
    assert verdict(run, tmp_path / "run").validity is not Validity.VALID


def test_a_clean_foreign_run_with_operations_alone_is_valid(good: Recording, tmp_path: Path) -> None:
    run = good.copy()
    run.drop(lambda row: row["kind"] in ("trace", "poll", "final"))
    run.meta["tells"] = ["operations"]
    run.meta["uses"] = ["queues", "topics"]
    found = verdict(run, tmp_path / "run")
    laws = {law.law: law.validity for law in found.laws}
    judged = {law for law, validity in laws.items() if validity is not Validity.NOT_APPLICABLE}
    assert judged >= {L.DURABILITY, L.NO_ROLLBACK, L.ORDER, L.CONSUMERS, L.TOPICS, L.PROGRESS, L.AVAILABILITY}
    assert not judged & {L.AGREEMENT, L.IN_SYNC, L.UPLOAD_BOUND, L.ROLES, L.CONTROLLERS, L.TIER_CONTINUITY}
    assert found.validity is Validity.VALID
    assert any("no-rollback (what replicas confirmed" in part for part in found.not_judged)
    run.meta["laws"] = ["agreement"]
    demanded = verdict(run, tmp_path / "demanded")
    assert demanded.validity is Validity.UNKNOWN and "demands the law agreement" in " ".join(demanded.why)


def test_evidence_that_nobody_declared_is_held_against_nobody(good: Recording, tmp_path: Path) -> None:
    for number, gone in enumerate(one for one in USUALLY_REPORTED if one is not Evidence.OPERATIONS):
        run = good.copy()
        run.drop(ROWS[gone])
        run.meta["tells"] = sorted(set(USUALLY_REPORTED) - (TIERS if gone in TIERS else {gone}))
        found = verdict(run, tmp_path / str(number))
        assert found.validity is Validity.VALID, (gone, found.why)


class Words(HTMLParser):
    """What a page says, but for the digest, which covers names, and how long the judging took."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text("utf-8"))

    def handle_data(self, data: str) -> None:
        self.found.append(re.sub(r"digest [0-9a-f]{64}|in [0-9.]+ s$", "", data.strip()))


def as_one(words: list[str]) -> str:
    """What a page says, wherever its lines end, and whether or not a sentence begins with a name."""
    return "".join("".join(words).lower().split())


def test_names_of_faults_workloads_and_the_driver_change_neither_verdict_nor_report(
    good: Recording, tmp_path: Path
) -> None:
    harmed = good.copy()
    harmed.drop(harmed.drained(random.Random(1).choice(harmed.acked())["message"]))
    for number, run in enumerate((good.copy(), harmed)):
        system = run.meta["system"]
        versions = {name: version for name, version in run.meta["versions"].items() if name != system}
        run.meta["versions"] = {**versions, system: "1.0"}
        before, page = judged(run, tmp_path / f"before-{number}" / "run")
        for row in run.rows:
            if row["kind"] == "fault":
                row["f"] = f"{RENAMED}{row['f']}"
        run.meta["faults"] = [f"{RENAMED}{name}" for name in run.meta["faults"]]
        run.meta["workloads"] = [f"{RENAMED}{name}" for name in run.meta["workloads"]]
        run.meta["system"] = f"{RENAMED}{system}"
        run.meta["versions"] = {**versions, run.meta["system"]: "1.0"}
        after, page_after = judged(run, tmp_path / f"after-{number}" / "run")
        assert (after.validity, after.laws, after.why) == (before.validity, before.laws, before.why)
        assert before.validity is (Validity.INVALID if number else Validity.VALID)
        assert (
            as_one(page_after).replace(RENAMED, "").replace("after-", "before-") == as_one(page) != as_one(page_after)
        )


def test_a_law_that_cannot_be_judged_is_refused_with_the_reason() -> None:
    assert unjudgeable(["durability", "no-rollback"], ["operations"], ["queues"]) == []
    for law, words in (
        ("agreement", "does not report final-logs"),
        ("linearizable", "no workload uses objects"),
        ("durabilty", "did you mean 'durability'"),
    ):
        (why,) = unjudgeable([law], ["operations"], ["queues"])
        assert words in why
