"""Controllers of the mode ``classic`` pass the examples that those of the mode ``parallel`` pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from benchmarks.mutants import EXPERIMENTS, run
from chaos.verdict import Validity


def asks_for_parallel(path: Path) -> bool:
    """Whether the example is about what only the mode ``parallel`` does.

    Either clients' changes are refused but for one at a time: controllers of the mode ``classic`` refuse none, each
    waits until all before it are logged, and over links so slow there come more than that. Or heartbeats are seconds
    apart while controllers die: in the mode ``classic`` each read is an entry of the log, and one that is lost with the
    follower that was sent it comes again with the next heartbeat."""
    text = path.read_text("utf-8")
    if "window" not in text and "heartbeat_ms" not in text:  # most; to read them all as YAML takes seconds
        return False
    experiment = YAML(typ="safe").load(text)
    system = experiment.get("system")
    options = system.get("reference") if isinstance(system, dict) else None
    asked = (options or {}).get("controller_options") or {}
    reads = any("register" in workload for workload in experiment["workloads"])
    kills = any(
        fault.get("kill", {}).get("target", "").startswith("controller") for fault in experiment.get("faults", [])
    )
    return asked.get("window") == 1 or (reads and kills and asked.get("heartbeat_ms", 0) >= 5000)


NAMES = [name for name, path in EXPERIMENTS.items() if not asks_for_parallel(path)]


def classic(name: str, folder: Path) -> Path:
    """The example with controllers of this mode, whatever else it asks of them."""
    experiment = YAML(typ="safe").load(EXPERIMENTS[name].read_text("utf-8"))
    if experiment.get("system", "reference") == "reference":
        experiment["system"] = {"reference": {}}
    (options,) = experiment["system"].values()
    options["controller_options"] = {**(options.get("controller_options") or {}), "mode": "classic"}
    file = folder / f"{name}.yaml"
    with file.open("w", encoding="utf-8") as out:
        YAML(typ="safe").dump(experiment, out)
    return file


def test_the_mode_is_what_is_asked_for(tmp_path: Path) -> None:
    told = YAML(typ="safe").load(classic("lease_reads", tmp_path).read_text("utf-8"))
    assert told["system"]["reference"]["controller_options"] == {
        "lease_ms": 300,
        "election_ms": 1500,
        "mode": "classic",
    }


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES[::3])  # most differ in what they do to brokers, and all together take minutes
def test_an_example_is_valid_with_classic_controllers(name: str, tmp_path: Path) -> None:
    verdict = run(classic(name, tmp_path), "", 1)
    assert verdict.validity is Validity.VALID, (verdict.anomaly_counts(), verdict.why)
