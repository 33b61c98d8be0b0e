"""``junit.xml``: names that stay, sums that are whole, and nothing green that nobody judged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.history.run_meta import RunMeta
from chaos.verdict import Anomaly, Permitted, RunVerdict, Validity, Verdict
from reports.run_report import junit
from tests.checkers.names import A, L

META = {
    "name": "stale.master",
    "deployment": "sim",
    "mutant": "ack-before-replication",
    "started": "2026-01-02T03:04:05+00:00",
    "replay": "stormproof run stale.yaml",
}


def lost(count: int, *, lawful: bool = False) -> Anomaly:
    name = A.REORDERED if lawful else A.LOST
    return Anomaly(law=L.DURABILITY, name=name, explanation="gone \x00 & away", count=count, lawful=lawful)


def written(run: Path, seed: int = 7, meta: Mapping[str, str] = META) -> ElementTree.Element:
    laws = [
        Verdict(law=L.DURABILITY, validity=Validity.INVALID, anomalies=(lost(1), lost(1), lost(718))),
        Verdict(law=L.ORDER, validity=Validity.UNKNOWN, why="rows are missing"),
        Verdict(law=L.ROLES, validity=Validity.NOT_APPLICABLE, why="the driver does not report roles"),
        Verdict(law=L.AGREEMENT, validity=Validity.VALID),
    ]
    verdict = RunVerdict(
        run="r", seed=seed, validity=Validity.INVALID, laws=laws, digest="0" * 64, engine="local", seconds=1.25,
        why=["no queue was drained"],
    )  # fmt: skip
    return ElementTree.parse(junit.write(run, verdict, RunMeta.of(meta))).getroot()


def test_the_names_are_the_same_for_every_run_of_an_experiment(tmp_path: Path) -> None:
    def names(run: str, seed: int) -> list[tuple[str | None, str | None]]:
        (tmp_path / run).mkdir()
        return [(case.get("classname"), case.get("name")) for case in written(tmp_path / run, seed).iter("testcase")]

    first, second = names("stale-7-20260102T030405", 7), names("stale-8-20260102T030411", 8)
    assert first == second
    assert {owner for owner, _ in first} == {"stormproof.stale-master.sim"}
    assert [case for _, case in first] == ["durability", "order", "roles", "agreement", "run"]


def test_each_validity_is_what_servers_show_for_it(tmp_path: Path) -> None:
    root = written(tmp_path)
    shown = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert shown == {
        "durability": ["failure"], "order": ["error"], "roles": ["skipped"], "agreement": [], "run": ["error"],
    }  # fmt: skip
    (suite,) = root.iter("testsuite")
    assert [suite.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["5", "1", "2", "1"]


def test_a_failure_sums_up_all_findings_of_a_kind(tmp_path: Path) -> None:
    (failure,) = written(tmp_path).iter("failure")
    assert (failure.get("message"), failure.get("type")) == ("720 × lost", "lost")
    assert (failure.text or "").splitlines() == ["lost: gone  & away"] * 3


def test_times_and_properties_tell_when_and_how_to_run_it_again(tmp_path: Path) -> None:
    root = written(tmp_path)
    (suite,) = root.iter("testsuite")
    assert suite.get("timestamp") == META["started"] and float(suite.get("time") or 0) == pytest.approx(1.25)
    told = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert told["seed"] == "7" and told["planted bug"] == META["mutant"] and told["replay"] == META["replay"]


def test_a_run_that_tells_nothing_of_itself_still_has_a_name(tmp_path: Path) -> None:
    (suite,) = written(tmp_path, meta={}).iter("testsuite")
    assert (suite.get("name") or "").endswith(".unknown")


def test_what_the_profile_permits_is_a_property_and_the_output_of_its_law_and_of_the_run(tmp_path: Path) -> None:
    policy = "`flush: async` allows at the power cut of 12.0 s"
    laws = [Verdict(law=L.DURABILITY, validity=Validity.VALID), Verdict(law=L.ORDER, validity=Validity.VALID)]
    verdict = RunVerdict(
        run="r", seed=7, validity=Validity.VALID, laws=laws, digest="", engine="local", seconds=1.0,
        permitted=[Permitted(law=L.DURABILITY, name=A.LOST_BY_POLICY, policy=policy, count=1212)],
    )  # fmt: skip
    meta = {**META, "profile": {"flush": "async"}, "profile_from": {"by": "experiment", "line": 3}}
    root = ElementTree.parse(junit.write(tmp_path, verdict, RunMeta.of(meta))).getroot()
    told = {one.get("name"): one.get("value") for one in root.iter("property")}
    assert told["lost by policy"] == f"1,212 lost, as {policy}"
    assert told["profile"] == "flush: async, acks: all (line 3 of the experiment)"
    outputs = {case.get("name"): case.findtext("system-out") for case in root.iter("testcase")}
    assert outputs == {
        "durability": f"1,212 lost, as {policy}", "order": None, "run": f"VALID; 1,212 lost, as {policy}",
    }  # fmt: skip
    assert not [*root.iter("failure")] and not [*root.iter("error")]
