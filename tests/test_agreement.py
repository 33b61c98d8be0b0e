"""One experiment file comes to the same verdict in the simulator, on processes, in namespaces, in containers and on
hosts, and decides the same laws: for the correct system, and for planted bugs that the experiment forces to show."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.verdict import Validity
from stormproof.shipped import experiments
from tests.chaos.deployments.storms import ROOT, judged, said

pytestmark = pytest.mark.process

#: A planted bug is found within this many runs.
TRIES = 5

HEAD = """\
name: agreement
system:
  reference: {queues: 2, tier_segment_bytes: 8192}
duration: 9s
workloads:
  - queue: {producers: 6, consumers: 2, rate_per_s: 120}
faults:
"""
#: The master goes on without its replicas, and clients still reach it.
STALE_MASTER = """\
  - partition: {shape: halves, target: master}
    at: 3s
    for: 3s
"""
#: Every broker loses what it has not synced.
POWER_CUT = """\
  - kill: {target: all}
    at: [4s, 7s]
    for: 500ms
"""
#: The tier gets new uploaders that must go on where the last one stopped.
SWITCHES = """\
  - switch: {}
    at: [3s, 5s, 7s]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """An experiment, the planted bug that it forces to show, if any, and the violations of which one must show it."""

    text: str
    mutant: str = ""
    shows: tuple[str, ...] = ()


REFERENCE = {
    "stale_master": Case(text=HEAD + STALE_MASTER, mutant="ack-before-replication", shows=("lost",)),
    # A group whose replicas all find that their disks lack what was confirmed has no candidate for a master any more:
    # then nobody can drain it and count the lost messages, but their own words tell that what was confirmed never was
    # on their disks.
    "power_cut": Case(
        text=HEAD + POWER_CUT, mutant="ack-before-fsync", shows=("lost", "confirm-rollback", "confirm-beyond-set")
    ),
    "switches": Case(text=HEAD + SWITCHES, mutant="resume-from-zero", shows=("tier-overlap",)),
}
#: Experiments with the split system that come with Stormproof, and the bugs that show in them.
SPLIT: Mapping[str, Mapping[str, Any]] = {
    "split/quickstart": {"mutant": "two-lives-one-node", "shows": ("life-reused",)},
    "split/broker_kill": {},
    "split/drain_all": {},
    "split/owner_apart": {},
    "split/power_loss": {},
    "split/seal_and_lose": {},
    "split/store_dies": {},
    "split/zone_outage": {},
}
SHIPPED = experiments(ROOT)
CASES = REFERENCE | {name: Case(text=SHIPPED[name].read_text("utf-8"), **bug) for name, bug in SPLIT.items()}
#: Deployments that need Docker's engine, as the tests have them.
ENGINE = ("docker", "ssh")
#: In the short suite one case stands for all, in the simulator: tests/stormproof/test_killed_harness.py finds a planted
#: bug on processes, and the storms of tests/chaos/deployments are VALID elsewhere.
SHORT = ("switches", "sim")
#: What the kernel does in namespaces is the same as in containers.
WHERE = {"sim": (), "process": (), **{on: (getattr(pytest.mark, on),) for on in ("netns", *ENGINE)}}


def everywhere(names: Iterable[str]) -> list[Any]:
    """Return each case with each deployment. The long ones, which have no planted bug, don't run on hosts: nodes there
    are processes whose links the kernel cuts, as in namespaces."""
    pairs = [(name, on) for name in names for on in WHERE if on != "ssh" or CASES[name].mutant]
    marks = {pair: (*WHERE[pair[1]], *(() if pair == SHORT else (pytest.mark.full,))) for pair in pairs}
    return [pytest.param(*pair, marks=marks[pair], id="-".join(pair)) for pair in pairs]


@pytest.fixture
def where(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The words that have a run use a deployment."""
    words = ["--on", str(request.param)]
    if request.param in ENGINE:
        request.getfixturevalue("engine")
    if request.param == "ssh":
        words += ["--inventory", str(request.getfixturevalue("hosts").file(tmp_path))]
    return words


def decided(cwd: Path, found: dict[str, Any]) -> set[str]:
    """The laws that had enough to judge."""
    told = json.loads((cwd / found["run"] / "verdict.json").read_text("utf-8"))
    return {law["law"] for law in told["laws"] if law["validity"] in (Validity.VALID, Validity.INVALID)}


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], set[str]]:
    """The laws that a case decides in the simulator."""
    known: dict[str, set[str]] = {}

    def find(name: str) -> set[str]:
        if name not in known:
            folder = tmp_path_factory.mktemp(name.replace("/", "-"))
            known[name] = decided(folder, judged(folder, CASES[name].text, "--on", "sim", "--seed", "1"))
        return known[name]

    return find


@pytest.mark.parametrize(("name", "where"), everywhere(CASES), indirect=["where"])
def test_the_correct_system_is_valid_everywhere(
    name: str, where: list[str], tmp_path: Path, simulated: Callable[[str], set[str]]
) -> None:
    found = judged(tmp_path, CASES[name].text, *where, "--seed", "1")
    assert found["verdict"] == "VALID", said(found)
    assert decided(tmp_path, found) == simulated(name) and len(simulated(name)) > 5


@pytest.mark.parametrize(("name", "where"), everywhere(one for one in CASES if CASES[one].mutant), indirect=["where"])
def test_the_planted_bug_is_found_everywhere(name: str, where: list[str], tmp_path: Path) -> None:
    case, seen = CASES[name], []
    for seed in range(1, TRIES + 1):
        words = (*where, "--seed", str(seed), "--bug", case.mutant)
        seen.append(judged(tmp_path, case.text, *words))
        if seen[-1]["verdict"] == "INVALID" and set(case.shows) & set(seen[-1]["anomalies"]):
            return
    pytest.fail(f"{case.mutant} was not found in {TRIES} runs: {seen}")
