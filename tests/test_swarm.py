"""The correct system keeps its promises in storms of every fault at random moments, whatever its shape and profile."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.experiment.reader import load

ROOT = Path(__file__).parent.parent
SWARM_FILE = ROOT / "examples" / "start" / "swarm.yaml"
SWARM = SWARM_FILE.read_text()
SEEDS = 1
MANY = 25
TIMEOUT_S = 40 * 60
DRAWN = re.MULTILINE | re.DOTALL  # for the lines of the profile that seeds draw
SHAPES = {
    "as it is": ("", ""),
    "strict": ("", "acks: all"),
    "one controller": ("controllers: 1", ""),
    "five controllers": ("controllers: 5", ""),
    "two brokers": ("brokers: 2", ""),
    "five brokers": ("brokers: 5", ""),
    "acknowledged by the master alone": ("", "acks: master"),
    "acknowledged by two": ("", "acks: 2"),
    "unclean elections": ("", "unclean: true"),
    "asynchronous flush": ("", "flush: async, unclean: true"),
}


def test_each_seed_draws_its_own_part_of_the_storm() -> None:
    experiment = load(SWARM_FILE, deployment="sim")
    drawn = [experiment.faults_on("sim", seed) for seed in range(30)]
    all_of_them = [str(fault.use) for fault in experiment.faults]
    parts = [{str(fault.use) for fault in faults} for faults in drawn]
    assert len(set(map(frozenset, parts))) == len(parts), "no two seeds have the same faults"
    assert set().union(*parts) == set(all_of_them) and set.intersection(*parts) == set()
    lengths = {fault.for_s for faults in drawn for fault in faults if fault.name == "wipe"}
    assert len(lengths) > 5, "nor the same density"


def test_seeds_draw_lossy_profiles_beside_a_tier_and_strict_ones() -> None:
    experiment = load(SWARM_FILE, deployment="sim")
    found = [experiment.drawn(seed) for seed in range(40)]
    assert all(it.system.options.tier for it in found)
    profiles = {it.profile for it in found}
    assert {it.acks for it in profiles} == {"all", "master", 2} and {it.flush for it in profiles} == {"sync", "async"}
    strict = sum(it.profile.strict for it in found)
    assert len(found) / 3 < strict < 2 * len(found) / 3


def sweep(directory: Path, system: str, profile: str, seeds: int) -> None:
    """No run is INVALID; few are UNKNOWN, when a fault found no moment or destroyed the only sure copy."""
    text = SWARM.replace("reference: {", f"reference: {{{system}, " if system else "reference: {")
    file = directory / "swarm.yaml"
    file.write_text(
        re.sub(r"^profile:.*?^(?=system:)", f"profile: {{{profile}}}\n", text, flags=DRAWN) if profile else text
    )
    words = ["run", str(file), "--on", "sim", "--seeds", f"0..{seeds - 1}", "--engine", "local", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "stormproof", *words, "--out", str(directory / "runs")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    runs = json.loads(done.stdout)
    assert [run["seed"] for run in runs] == list(range(seeds))
    assert [(run["seed"], run["anomalies"]) for run in runs if run["verdict"] == "INVALID"] == []
    # Where nothing is flushed before it is acknowledged, crashes destroy the only sure copy so often.
    least = seeds // 3 if "async" in profile else max(1, seeds * 4 // 5)
    assert sum(run["verdict"] == "VALID" for run in runs) >= least, [run["why"] for run in runs]


def test_the_swarm_finds_nothing(tmp_path: Path) -> None:
    sweep(tmp_path, *SHAPES["as it is"], SEEDS)


@pytest.mark.full
@pytest.mark.parametrize("shape", SHAPES)
def test_no_swarm_finds_anything(tmp_path: Path, shape: str) -> None:
    sweep(tmp_path, *SHAPES[shape], MANY if shape == "as it is" else 6)
