"""Mutants are run, found, and counted; a run that is killed leaves nothing but what it knows, and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.mutation.campaign import Job, carry_out
from benchmarks.mutation.mutants import ROOT, Mutant, all_mutants
from benchmarks.mutation.reach import Reach
from benchmarks.mutation.state import code_version, opened
from benchmarks.mutation.systems import REFERENCE
from benchmarks.mutation.trial import Trial

EXPERIMENT = "tests/benchmarks/sample.yaml"
#: Mutants that the sample's short storm finds with its first seed. An edit may take some of them away: then
#: `python -m benchmarks.mutation --sample 40 --seeds 1 --experiment tests/benchmarks/sample.yaml` tells others.
FOUND = (
    "broker/queues:Queues.base_at:drop-condition:71f47e",
    "raft/policy:RaftPolicy.may_vote:turn-condition:60708a",
    "broker/replication:Replication.confirm_end:min-max:3912ea",
    "broker/queues:Queues.dispatch:keep-stale:cd215a",
    "broker/queues:Queues.add_message:drop-step:95074e",
    "broker/queues:Queues.drop_before:keep-stale:f776a6",
    "broker/replication:Replication.message:drop-step:474b2b",
    "broker/replication:Replication.acknowledged_end:turn-condition:073673",
    "broker/master_replication:MasterReplication.acknowledged:min-max:9c2fcd",
    "broker/files:SmallFile._read:turn-condition:dce9c5",
    "controller/node:Controller.apply:turn-condition:6a9f23",
)
ENOUGH = 10
END_S = 600


@pytest.fixture(scope="module")
def sample() -> list[Mutant]:
    by_id = {mutant.id: mutant for mutant in all_mutants()}
    there = [by_id[name] for name in FOUND if name in by_id]
    assert len(there) >= ENOUGH, "the code has changed: draw others"
    return there[:ENOUGH]


@pytest.mark.parametrize("number", [3, pytest.param(ENOUGH, marks=pytest.mark.full)])
def test_mutants_that_were_found_before_are_found(sample: list[Mutant], number: int, tmp_path: Path) -> None:
    some = sample[:number]
    trials = [Trial(mutant=mutant, experiment=EXPERIMENT, seed=1) for mutant in (None, *some)]
    jobs = [Job(trials=(trial,), until_found=True, watched=trial.mutant is None) for trial in trials]
    with opened(tmp_path / "state.jsonl", code_version(ROOT, REFERENCE.elsewhere)) as state:
        with closing(carry_out(jobs, state, workers=2, system=REFERENCE)) as outcomes:
            results = {outcome.mutant: outcome for outcome in outcomes}
        correct = state.known["", EXPERIMENT, 1]
        reach = Reach([(EXPERIMENT, 1)], state.known)
    assert not results.pop("").result.finds and correct.rows
    assert all(reach.times(mutant, (EXPERIMENT, 1)) for mutant in some), "what was found was seen to be reached"
    assert [(one.mutant, one.result, one.why) for one in results.values() if not one.result.finds] == []
    assert len(results) == number and all(one.reached for one in results.values())
    assert [path.name for path in tmp_path.iterdir()] == ["state.jsonl"]


@pytest.mark.full
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_process_and_goes_on(
    how: signal.Signals, sample: list[Mutant], tmp_path: Path
) -> None:
    state = tmp_path / "state.jsonl"
    words = [sys.executable, "-m", "benchmarks.mutation", "--seeds", "2", "--experiment", EXPERIMENT]
    words += ["--state", str(state), *(word for mutant in sample[:2] for word in ("--only", mutant.id))]
    first = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    try:
        _wait_until(lambda: state.exists() and state.read_bytes().count(b"\n") >= 1)
        first.send_signal(how)
        first.communicate(timeout=END_S)
        _wait_until(lambda: not _lives(first.pid))
    finally:
        if _lives(first.pid):
            os.killpg(first.pid, signal.SIGKILL)
    known = state.read_text()
    second = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=END_S, check=False)
    assert second.returncode == 0 and "100.0 % found (2)" in second.stdout, second.stderr
    assert state.read_text().startswith(known)
    trials = [line.partition('"result"')[0] for line in state.read_text().splitlines()]
    assert len(trials) == len(set(trials)), "no trial was run twice"


def _wait_until(holds: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + END_S
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
