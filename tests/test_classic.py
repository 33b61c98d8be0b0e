"""Controllers of the mode ``classic`` pass the examples that those of the mode ``parallel`` pass."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from benchmarks.mutants import EXAMPLES, run
from chaos.verdict import Validity


def asks_for_a_window(path: Path) -> bool:
    """Whether clients' changes are refused there but for one at a time. Controllers of the mode ``classic`` refuse
    none: each waits until all before it are logged, and over links so slow there come more than that."""
    system = YAML(typ="safe").load(path.read_text("utf-8")).get("system")
    options = system.get("reference") if isinstance(system, dict) else None
    return bool(options) and (options.get("controller_options") or {}).get("window") == 1


NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml") if not asks_for_a_window(path))


def classic(name: str, folder: Path) -> Path:
    """The example with controllers of this mode, whatever else it asks of them."""
    experiment = YAML(typ="safe").load((EXAMPLES / f"{name}.yaml").read_text("utf-8"))
    if experiment.get("system", "reference") == "reference":
        experiment["system"] = {"reference": {}}
    (options,) = experiment["system"].values()
    options["controller_options"] = {**(options.get("controller_options") or {}), "mode": "classic"}
    file = folder / f"{name}.yaml"
    with file.open("w", encoding="utf-8") as out:
        YAML(typ="safe").dump(experiment, out)
    return file


def test_the_mode_is_what_is_asked_for(tmp_path: Path) -> None:
    told = YAML(typ="safe").load(classic("leases", tmp_path).read_text("utf-8"))
    assert told["system"]["reference"]["controller_options"] == {
        "lease_ms": 300,
        "election_ms": 1500,
        "mode": "classic",
    }


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_valid_with_classic_controllers(name: str, tmp_path: Path) -> None:
    verdict = run(str(classic(name, tmp_path).with_suffix("")), "", 1)
    assert verdict.validity is Validity.VALID, (verdict.anomaly_counts(), verdict.why)
