"""Whole runs with a gateway on processes: it and brokers are killed, and the store is in trouble; the laws find planted
bugs of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from chaos.events import StorePut
from chaos.experiment.reader import load
from chaos.history.history import History
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine, RunVerdict, Validity
from reference.mutants.gateway import MUTANTS
from stormproof.launch import Launch, start
from tests.reference.s3 import NONE, SECRET, SmallS3, Trouble, small_s3

pytestmark = pytest.mark.process
pytest.importorskip("obstore", reason="not there: pip install 'stormproof[cloud]'")

#: What the gateway has a part in. A harness that stood still on a busy machine makes others undecided.
LAWS = ("durability", "upload-bound", "single-uploader", "tier-continuity", "tier-metadata", "progress", "order")
KILLS = """
  - kill: {target: tier}
    at: [3s, 11s]
    for: 1s
  - kill: {target: master}
    at: [6s, 11500ms]
    for: 1s
"""
#: So a master has confirmed records to upload for longer than it takes to be replaced.
SLOW = "tier_segment_bytes: 65536, tier_max_age_ms: 3000"
#: The master is cut off from all but the tier, and what it sends there is late: a compare-and-set of its comes after
#: those of its successor.
REPLACED = """
  - slow_link: {target: master, peers: [store], way: out, delay_ms: 1500, jitter_ms: 0}
    at: [2s, 9s]
    for: 6s
  - partition: {shape: apart, target: master, away_from: [brokers, controllers, nameservers]}
    at: [2200ms, 9200ms]
    for: 5s
"""


def experiment(folder: Path, tier: str, faults: str, uploads: str) -> Path:
    file = folder / "gateway.yaml"
    file.write_text(f"""\
name: gateway
system:
  reference:
    {{queues: 2, {uploads}, segment_bytes: 16384, retain_bytes: 32768, tier: {{{tier}}}}}
duration: 16s
workloads:
  - queue: {{producers: 3, consumers: 2, rate_per_s: 90}}
  - tier_read: {{readers: 2, rate_per_s: 10}}
faults:{faults}""")
    return file


def run(
    folder: Path, tier: str, faults: str, mutant: str = "", uploads: str = "tier_segment_bytes: 8192"
) -> tuple[RunVerdict, Path]:
    file = experiment(folder, tier, faults, uploads)
    loaded = load(file, deployment="process")
    made = start(Launch(experiment=loaded, file=file, deployment="process", seed=1, mutant=mutant, out=folder / "runs"))
    return judge([examine_run(made)], engine=Engine.LOCAL)[0], made


def broken(verdict: RunVerdict) -> list[str]:
    return [str(law.law) for law in verdict.laws if law.validity is Validity.INVALID]


def assert_valid(verdict: RunVerdict, run: Path) -> None:
    said = {str(law.law): (law.validity, law.why) for law in verdict.laws}
    assert not broken(verdict), verdict.anomaly_counts()
    assert {law: said[law] for law in LAWS if said[law][0] is not Validity.VALID} == {}
    assert History.open(run).rows(StorePut).num_rows


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallS3]:
    """One in twelve writes is refused, or its answer is lost, whether or not it took effect."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", SECRET)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    rng = Random(1)
    troubles = (
        Trouble(status=503),
        Trouble(status=503, done=True),
        Trouble(silent=True),
        Trouble(silent=True, done=True),
    )
    with small_s3() as server:
        server.meddle = lambda method, key: rng.choice(troubles) if method == "PUT" and rng.random() < 1 / 12 else NONE
        yield server


def test_a_folder_keeps_what_was_answered_whoever_is_killed(tmp_path: Path) -> None:
    verdict, made = run(tmp_path, f'store: "file://{tmp_path}/objects", single_writer: true', KILLS)
    assert_valid(verdict, made)
    assert list((tmp_path / "objects").iterdir()) == []


def test_a_compare_and_set_that_compares_nothing_is_found(tmp_path: Path) -> None:
    planted = MUTANTS[0]
    tier = f'store: "file://{tmp_path}/objects", single_writer: true'
    verdict, _ = run(tmp_path, tier, REPLACED, planted.name, SLOW)
    assert planted.law in broken(verdict), (broken(verdict), verdict.why)


def test_a_store_in_trouble_costs_time_and_nothing_else(tmp_path: Path, s3: SmallS3) -> None:
    verdict, made = run(tmp_path, f'store: "{s3.url}"', KILLS)
    assert_valid(verdict, made)
    assert not s3.objects
    kept = b"".join(path.read_bytes() for path in made.rglob("*") if path.is_file())
    assert SECRET.encode() not in kept


@pytest.mark.full
def test_trouble_that_is_taken_for_success_is_found(tmp_path: Path, s3: SmallS3) -> None:
    planted = MUTANTS[1]
    verdict, _ = run(tmp_path, f'store: "{s3.url}"', KILLS, planted.name)
    assert planted.law in broken(verdict), (broken(verdict), verdict.why)
