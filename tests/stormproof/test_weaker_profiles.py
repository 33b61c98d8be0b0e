"""Systems that are set up for less: what their weakness explains is permitted and told, all else is INVALID, and what
nobody can decide is UNKNOWN. In the simulator, on processes, and for a program of others that loses its power."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chaos.history.directory import read_verdict
from chaos.verdict import RunVerdict
from stormproof import cli
from tests import tutorial
from tests.chaos.deployments.test_power_cuts import can_cut as can_cut  # a fixture, which skips where it can't be done
from tests.stormproof.foreign import EXPERIMENT, OUTSIDE, installed
from tests.stormproof.test_foreign import judged

#: The tutorial's run: a master is cut off from its slaves, and another one is elected.
TUTORIAL = tutorial.parse((Path(__file__).parents[2] / "docs/tutorial.md").read_text("utf-8")).files["first.yaml"]
ALL_CRASH = """\
name: all-crash
system:
  reference: {brokers: 3, queues: 1}
duration: 6s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 60}
faults:
  - lose_unsynced: {target: all}
    at: 2500ms
    for: 500ms
"""


def ran(folder: Path, experiment: str, profile: str, *words: str) -> RunVerdict:
    """The verdict of a run under this profile."""
    file = folder / "experiment.yaml"
    file.write_text(f"{experiment}profile: {profile}\n", "utf-8")
    cli._run(["run", str(file), "--seed", "1", "--engine", "local", "--out", str(folder / "runs"), *words])
    (run,) = (folder / "runs").glob("*-1-*")
    return read_verdict(run)


def durability(verdict: RunVerdict) -> tuple[str, set[str]]:
    law = next(law for law in verdict.laws if law.law == "durability")
    return law.validity, {one.name for one in law.anomalies} - {"redelivery", "recovered"}


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("{flush: async}", ("INVALID", {"lost"})),
        ("{min_in_sync: 1}", ("INVALID", {"lost"})),
        ("{acks: 2}", ("INVALID", {"lost", "false-acknowledgement"})),
        ("{unclean: true}", ("INVALID", {"lost"})),
        ("{flush: async, unclean: true}", ("INVALID", {"lost"})),
        # To acknowledge what it alone has is what `acks: master` says that it does.
        ("{acks: master}", ("VALID", {"lost-by-policy"})),
    ],
)
def test_what_a_planted_bug_loses_is_excused_only_by_the_weakness_that_it_amounts_to(
    tmp_path: Path, profile: str, expected: tuple[str, set[str]]
) -> None:
    verdict = ran(tmp_path, TUTORIAL, profile, "--on", "sim", "--bug", "ack-before-replication")
    assert durability(verdict) == expected
    assert verdict.validity == expected[0]


@pytest.mark.parametrize("profile", ["{flush: async}", "{min_in_sync: 1}", "{acks: 2}", "{unclean: true}"])
def test_the_correct_system_loses_nothing_there_under_these(tmp_path: Path, profile: str) -> None:
    verdict = ran(tmp_path, TUTORIAL, profile, "--on", "sim")
    assert (verdict.validity, durability(verdict)) == ("VALID", ("VALID", set()))


def test_a_crash_of_all_replicas_is_undecided_or_explained_by_what_the_profile_lets_come_after(tmp_path: Path) -> None:
    """Under asynchronous flush every replica may lack what it had: nobody may lead any more, unless losses are
    permitted, and then the election says so."""
    for profile, expected in (("{flush: async}", "UNKNOWN"), ("{flush: async, unclean: true}", "VALID")):
        folder = tmp_path / expected
        folder.mkdir()
        assert ran(folder, ALL_CRASH, profile, "--on", "sim").validity == expected


@pytest.mark.full
@pytest.mark.process
@pytest.mark.parametrize(
    ("profile", "words", "expected"),
    [
        ("{acks: master}", (), ("VALID", {"lost-by-policy"})),
        ("{min_in_sync: 1}", ("--bug", "ack-before-replication"), ("INVALID", {"lost"})),
        ("{acks: 2}", ("--bug", "ack-before-replication"), ("INVALID", {"lost", "false-acknowledgement"})),
        ("{acks: 2}", (), ("VALID", set())),
    ],
)
def test_processes_are_judged_by_the_same_rule(
    tmp_path: Path, profile: str, words: tuple[str, ...], expected: tuple[str, set[str]]
) -> None:
    assert durability(ran(tmp_path, TUTORIAL, profile, "--on", "process", *words)) == expected


# A program of others

KILL = "  - kill: {target: queue-0}\n    at: 3s\n    for: 500ms\n"
CUT = KILL.replace("kill", "lose_unsynced")
#: A lazy server writes every three seconds from its start on, so that one of two kills meets messages that it owes.
TWICE = KILL.replace("at: 3s", "at: [3s, 5s]")
STRICT = "return Profile()"
#: What is under way when the power goes is on the disk half a minute later at most: the kernel writes it by then.
ASYNC = (
    'return Profile(flush="async")\n\n    def exposure(self) -> Exposure:\n        return Exposure(loss_window_s=40.0)'
)
UNDECLARED = 'return Profile(flush="async")'


def site_of(folder: Path, promise: str) -> Path:
    """The package of tinyq, whose server leaves its log to the kernel, with a driver that promises this."""
    site = installed(folder / "site")
    (site / "mystorm").unlink()
    shutil.copytree(OUTSIDE / "mystorm", site / "mystorm")
    server, driver = site / "mystorm" / "tinyq_server.py", site / "mystorm" / "tinyq.py"
    server.write_text(server.read_text().replace("        os.fsync(self.file.fileno())\n", ""))
    text = driver.read_text().replace("    Dials,\n", "    Dials,\n    Exposure,\n")
    assert STRICT in text
    driver.write_text(text.replace(STRICT, promise))
    return site


@pytest.mark.full
@pytest.mark.process
@pytest.mark.parametrize("deployment", ["process", "netns"])
@pytest.mark.parametrize(
    ("promise", "fault", "mutant", "expected"),
    [
        (ASYNC, CUT, "", ("VALID", {"lost-by-policy"})),
        (ASYNC, KILL, "", ("VALID", set())),
        (ASYNC, TWICE, "lazy", ("INVALID", {"lost"})),
        (UNDECLARED, CUT, "", ("UNKNOWN", set())),
        (STRICT, CUT, "", ("INVALID", {"lost"})),
    ],
    ids=["explained", "nothing-lost", "not-explained", "undecided", "strict"],
)
def test_a_program_that_leaves_its_log_to_the_kernel_may_lose_it_in_a_power_cut_alone(
    can_cut: None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    deployment: str,
    promise: str,
    fault: str,
    mutant: str,
    expected: tuple[str, set[str]],
) -> None:
    words = ("--bug", mutant) if mutant else ()
    # The other clients don't say which node acknowledged, so that nobody knows whether the power cut hit that one.
    queue_alone = EXPERIMENT.replace("  - trickle\n", "").replace("  - program\n", "")
    monkeypatch.setattr("tests.stormproof.test_foreign.EXPERIMENT", queue_alone)
    judged(tmp_path, site_of(tmp_path, promise), fault, "--on", deployment, *words)
    (path,) = tmp_path.glob("runs/*/verdict.json")
    verdict = read_verdict(path.parent)
    assert durability(verdict) == expected, verdict.why
    if expected[1] == {"lost-by-policy"}:
        assert "judged by faults alone" in verdict.line
