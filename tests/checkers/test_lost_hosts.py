"""A host that vanishes takes the end of its nodes' traces with it: what they did not tell is held against nobody."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chaos.judging.outcome import judge
from chaos.verdict import Engine, RunVerdict, Validity
from tests.checkers.recorded import Recording, Row, record

#: So much of the traces may be lost: they are fetched in turns.
LOST_MS = (0, 50, 500, 2000)
EXPERIMENT = """\
name: lost
system:
  reference: {{queues: 2, tier_segment_bytes: 4096, segment_bytes: 8192, retain_bytes: 16384}}
duration: 9s
workloads:
  - queue: {{producers: 3, consumers: 2, rate_per_s: 40}}
  - tier_read: {{readers: 1, rate_per_s: 5}}
faults:
  - switch: {{}}
    at: [1500ms, 3s]
  - partition: {{shape: isolate, target: slave}}
    at: 2s
    for: 1s
  - kill: {{target: {broker}}}
    at: {at}
    for: 30s
  - kill: {{target: controller-2}}
    at: {at}
    for: 30s
"""


def lost_with_its_host(run: Recording, lost_ms: int) -> Recording:
    """The run until it is healed, in which the host of the nodes that were killed did not come back."""
    one = run.copy()
    kills = [row for row in one.find("fault", "kill") if row["v"].get("targets")]
    nodes = {node for row in kills for node in row["v"]["targets"]}
    since_ns = max(row["time_ns"] for row in kills) - lost_ms * 1_000_000
    end = one.phase("heal")

    def gone(row: Row) -> bool:
        lost = row["kind"] == "trace" and row["node"] in nodes and row["time_ns"] > since_ns
        return lost or row["index"] >= end

    one.drop(gone)
    told = {"what": "host h2 with two nodes could not be reached"}
    one.insert(one.find("harness", "phase")[-1], f="host_lost", v=told)
    one.rows.append(one.rows.pop(one.rows.index(one.find("harness", "host_lost")[0])))
    return one


def check_lost_host(seed: int, directory: Path) -> list[RunVerdict]:
    rng = Random(seed)
    text = EXPERIMENT.format(broker=rng.choice(["master", "slave"]), at=rng.choice(["2200ms", "4s", "5500ms"]))
    directory.mkdir()
    run = record(directory, seed, text)
    lost = [lost_with_its_host(run, lost_ms).write(directory / f"lost-{lost_ms}") for lost_ms in LOST_MS]
    verdicts = judge(lost, engine=Engine.LOCAL)
    assert [found.anomaly_counts() for found in verdicts if found.validity is not Validity.UNKNOWN] == []
    return verdicts


def test_no_law_takes_a_lost_trace_for_a_broken_promise(tmp_path: Path) -> None:
    verdicts = check_lost_host(4, tmp_path / "run")  # a master: what it did is known by clients and the store only
    assert any("its trace may lack its end" in why for found in verdicts for why in found.why)


@pytest.mark.full
def test_no_law_takes_any_lost_trace_for_a_broken_promise(tmp_path: Path) -> None:
    for seed in range(6):
        check_lost_host(seed, tmp_path / str(seed))
