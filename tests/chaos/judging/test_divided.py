"""A large run is judged on Spark without shards: the verdict is that of its shards, and damage is found as ever."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.errors import DamagedHistory
from chaos.experiment.reader import load
from chaos.history import manifest, row_files, segments, shards
from chaos.history.history import History
from chaos.history.pieces import pieces
from chaos.history.seal_traces import seal_traces
from chaos.history.stream import STREAM
from chaos.judging import divided, in_process, masters, surveying
from chaos.judging.outcome import judge
from chaos.judging.run import Prepared, prepare
from chaos.judging.spark import Session
from chaos.judging.spark_errors import JobFailed
from chaos.verdict import Engine, RunVerdict, Validity
from stormproof.launch import Launch, start
from tests.chaos.judging import spark_work

pytestmark = pytest.mark.spark
EXPERIMENT = """\
name: divided
system: {reference: {queues: 2, tier_segment_bytes: 4096, segment_bytes: 8192}}
duration: 6s
reach: [replica damaged, send of unknown outcome]
workloads:
  - queue: {producers: 3, consumers: 2, rate_per_s: 40, commit_s: 1}
  - tier_read: {readers: 1, rate_per_s: 5}
faults:
  - kill: {target: master}
    at: 2s
    for: 500ms
"""
NOISE = '{"f": "role", "node": "broker-9", "incarnation": 1, "step": %d, "epoch": 1, "value": {"role": "slave"}}\n'


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(masters.parse("local[2]")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_ROWS", 1_500)
    for module in (shards, row_files):
        monkeypatch.setattr(module, "SINGLE_SHARD_ROWS", 1_000)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """A run of the correct system, and one with a planted bug, in the simulator; each with a trace of a process."""
    folder, found = tmp_path_factory.mktemp("divided"), dict[str, Path]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(segments, "SEGMENT_ROWS", 1_500)
        for mutant in ("", "ack-before-replication"):
            file = folder / f"divided{mutant}.yaml"
            file.write_text(EXPERIMENT)
            experiment = load(file, deployment="sim", mutant=mutant)
            launch = Launch(
                experiment=experiment, file=file, deployment="sim", seed=3, mutant=mutant, out=folder / "runs"
            )
            run = found[mutant] = start(launch)
            (run / "traces").mkdir()
            (run / "traces/broker-9.jsonl").write_text("".join(NOISE % step for step in range(200)))
            seal_traces(run)
    yield found


@pytest.fixture
def run(recorded: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(recorded[""], tmp_path / "run")
    return tmp_path / "run"


def told(prepared: Prepared, session: Session | None = None) -> RunVerdict:
    engine = Engine.LOCAL if session is None else Engine.SPARK
    (verdict,) = judge([prepared], engine=engine, session=session, write=False)
    laws = tuple(
        replace(law, counts={name: count for name, count in law.counts.items() if count}) for law in verdict.laws
    )
    return replace(verdict, engine="", seconds=0.0, laws=laws)


def without_shards(run: Path, session: Session) -> Prepared:
    shutil.rmtree(run / "shards", ignore_errors=True)
    prepared = prepare(run, session=session)
    assert prepared.shards == () and not (run / "shards").exists()
    return prepared


@pytest.mark.parametrize(
    ("mutant", "most"),
    [
        ("", 1 << 20),
        ("ack-before-replication", 300),
        pytest.param("", 300, marks=pytest.mark.full),
        pytest.param("ack-before-replication", 1 << 20, marks=pytest.mark.full),
    ],
)
def test_the_verdict_is_that_of_shards(
    recorded: dict[str, Path], session: Session, mutant: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveying, "TASK_ROWS", most)
    monkeypatch.setattr(shards, "SHARD_ROWS", most)
    run = recorded[mutant]
    assert len(pieces(run, manifest.read(run))) > 4
    found, wanted = told(without_shards(run, session), session), told(prepare(run))
    assert found == wanted
    assert found.digest and [*found.reached] == ["replica damaged", "send of unknown outcome"]
    assert found.validity is (Validity.INVALID if mutant else Validity.VALID)


@pytest.mark.parametrize("mutant", ["", "ack-before-replication"])
def test_in_this_process_the_verdict_is_the_same(
    recorded: dict[str, Path], mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name in ((surveying, "TASK_ROWS"), (shards, "SHARD_ROWS"), (in_process, "MOST_HELD")):
        monkeypatch.setattr(module, name, 300)
    run = recorded[mutant]
    shutil.rmtree(run / "shards", ignore_errors=True)
    before = {path.name for path in run.iterdir()}
    seen: list[tuple[int, int]] = []
    prepared = prepare(run, at_once=True, on_progress=lambda *progress: seen.append(progress))
    assert [done for done, _ in seen] == [*range(1, seen[-1][1] + 1)] and len(seen) > 5
    assert prepared.shards == () and {path.name for path in run.iterdir()} == before
    assert told(prepared) == told(prepare(run))


def test_without_room_for_blocks_there_are_shards(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(in_process, "SpooledTemporaryFile", full)
    assert prepare(run, at_once=True).shards


def test_what_is_read_of_a_run_without_shards_is_what_was_recorded(run: Path) -> None:
    whole, _ = History.open(run).recorded()
    history = History.open(run)
    assert history.is_large
    sends = history.only(lambda rows: rows["f"].to_numpy() == "send", ("index", "f", "offset")).table
    assert sends["index"].to_pylist() == whole.filter(whole["f"].to_numpy() == "send")["index"].to_pylist()
    assert history.table.num_rows == whole.num_rows and history.table["index"].equals(whole["index"])


def test_a_segment_that_was_altered_is_found_and_named(run: Path, session: Session) -> None:
    data = bytearray((run / STREAM).read_bytes())
    data[len(data) // 2] ^= 1
    (run / STREAM).write_bytes(data)
    prepared = prepare(run, session=session)
    assert prepared.damage == prepare(run).damage and STREAM in " ".join(prepared.damage)
    assert told(prepared, session).validity is Validity.UNKNOWN


def test_a_job_that_comes_to_nothing_leaves_it_to_shards(
    run: Path, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise JobFailed("no executor is left", lost=False)

    wanted = told(without_shards(run, session), session)
    monkeypatch.setattr(divided, "Divided", fail)
    prepared = prepare(run, session=session)
    assert prepared.shards and told(prepared, session) == wanted


@pytest.mark.full
def test_a_shard_that_no_worker_survives_leaves_its_own_laws_unknown(
    recorded: dict[str, Path], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divided, "examine_bucket", spark_work.examine_unless_of_nodes)
    run = recorded[""]
    verdict = told(without_shards(run, session), session)
    unknown = {law.law for law in verdict.laws if law.validity is Validity.UNKNOWN}
    assert verdict.validity is Validity.UNKNOWN and 0 < len(unknown) < len(verdict.laws) / 2
    assert all("a Python worker died each time" in law.why for law in verdict.laws if law.law in unknown)


def test_a_piece_that_changes_meanwhile_is_damage(run: Path) -> None:
    (first, *_) = pieces(run, manifest.read(run))
    (run / STREAM).write_bytes(b"something else")
    with pytest.raises(DamagedHistory, match=r"history\.arrows"):
        first.read()
