"""A large run is judged as if it had been examined in one piece: on Spark and in this process, however it was recorded,
and whatever is damaged, or fails, meanwhile."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import reports
from chaos.errors import DamagedHistory, MachineError
from chaos.experiment.reader import load
from chaos.history import directory, manifest
from chaos.history.columns import COLUMNS, GIVEN, INTEGERS
from chaos.history.history import History
from chaos.history.made import Made
from chaos.history.manifest import Manifest
from chaos.history.pieces import Piece, pieces
from chaos.history.recorder import Recorder
from chaos.history.seal_traces import seal_traces
from chaos.history.stream import SCHEMA, STREAM
from chaos.judging import blocks, divided, masters, surveying
from chaos.judging.engine import verdicts
from chaos.judging.in_process import InProcess
from chaos.judging.outcome import judge
from chaos.judging.run import ExaminedRun, examine_run
from chaos.judging.spark import Session
from chaos.judging.spark_errors import JobFailed
from chaos.judging.summary import Collect
from chaos.judging.surveying import Surveyed, spans
from chaos.verdict import Engine, RunVerdict, Validity
from reports.run_report import gathered
from stormproof.launch import Launch, start
from tests.chaos.history.runs import make_large
from tests.chaos.judging import spark_work
from tests.chaos.judging.test_engine import BROKERS, busy
from tests.checkers.names import OF_STORAGE
from tests.stormproof import strangers

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
BUG = "ack-before-replication"
TRACE = "traces/broker-9.jsonl"
NOISE = '{"f": "role", "node": "broker-9", "incarnation": 1, "step": %d, "epoch": 1, "value": {"role": "slave"}}\n'
#: So many rows are large here, and a piece has so many.
LARGE, PIECE = 1_000, 1_500


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(masters.parse("local[2]")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_large(monkeypatch, LARGE, PIECE)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of the correct system, and one with a planted bug, in the simulator; each with a trace of a process."""
    folder, found = tmp_path_factory.mktemp("divided"), dict[str, Path]()
    with pytest.MonkeyPatch.context() as patched:
        make_large(patched, LARGE, PIECE)
        for mutant in ("", BUG):
            file = folder / f"divided{mutant}.yaml"
            file.write_text(EXPERIMENT)
            experiment = load(file, deployment="sim", mutant=mutant)
            launch = Launch(
                experiment=experiment, file=file, deployment="sim", seed=3, mutant=mutant, out=folder / "runs"
            )
            run = found[mutant] = start(launch)
            (run / TRACE).parent.mkdir()
            (run / TRACE).write_text("".join(NOISE % step for step in range(200)))
            seal_traces(run)
            assert len(pieces(run, manifest.read(run))) > 4
    return found


@pytest.fixture
def run(recorded: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(recorded[""], tmp_path / "run")
    return tmp_path / "run"


def verdict_of(prepared: ExaminedRun) -> RunVerdict:
    (verdict,) = judge([prepared], engine=Engine.LOCAL, write=False)
    return replace(verdict, run="", seconds=0.0)


def in_one_piece(run: Path) -> RunVerdict:
    with pytest.MonkeyPatch.context() as patched:
        make_large(patched, 1 << 30, PIECE)
        return verdict_of(examine_run(run))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("mutant", "most"),
    [
        ("", 1 << 20),
        (BUG, 300),
        pytest.param("", 300, marks=pytest.mark.full),
        pytest.param(BUG, 1 << 20, marks=pytest.mark.full),
    ],
)
def test_on_spark_the_verdict_is_that_of_the_run_in_one_piece(
    recorded: dict[str, Path], session: Session, mutant: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveying, "TASK_ROWS", most)
    found = verdict_of(examine_run(recorded[mutant], session=session))
    assert found == in_one_piece(recorded[mutant])
    assert found.digest and [*found.reached] == ["replica damaged", "send of unknown outcome"]
    assert found.validity is (Validity.INVALID if mutant else Validity.VALID)


@pytest.mark.parametrize("mutant", ["", BUG])
def test_in_this_process_the_verdict_is_the_same(
    recorded: dict[str, Path], mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(surveying, "TASK_ROWS", 300)
    monkeypatch.setattr(blocks, "MOST_HELD", 300)
    run, seen = recorded[mutant], list[tuple[int, int]]()
    before = {path.name for path in run.iterdir()}
    found = verdict_of(examine_run(run, on_progress=lambda *progress: seen.append(progress)))
    assert found == in_one_piece(run) and found.validity is (Validity.INVALID if mutant else Validity.VALID)
    assert [done for done, _ in seen] == [*range(1, seen[-1][1] + 1)] and len(seen) > 5
    assert {path.name for path in run.iterdir()} == before, "nothing is left behind"


@pytest.mark.parametrize("on_spark", [False, pytest.param(True, marks=pytest.mark.spark)])
@pytest.mark.parametrize("mutant", ["", BUG])
def test_the_page_is_that_of_what_the_run_came_to_when_it_was_judged(
    recorded: dict[str, Path],
    mutant: str,
    on_spark: bool,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(surveying, "TASK_ROWS", 300)
    shutil.copytree(recorded[mutant], run := tmp_path / "run")
    session = request.getfixturevalue("session") if on_spark else None
    found = examine_run(run, session=session, summary=reports.page_summary)
    judge([found], engine=Engine.LOCAL)
    page = reports.render(run).read_bytes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gathered, "divide", None)  # nothing is made again
        assert found.summarised is not None and reports.render(run, found.summarised).read_bytes() == page


class FailingSummary:
    """A summary that fails where it is asked to, however it was to be made."""

    buckets = 1

    def __init__(self, pieces: Sequence[Piece], divides: bool) -> None:
        self._divides = divides

    def divide(self, rows: pa.Table) -> Iterator[tuple[int, bytes]]:
        if not self._divides:
            raise ZeroDivisionError
        yield 0, b"1"

    def collected(self, collect: Collect) -> Any:
        (found,) = collect(lambda given, bucket, blocks: given + sum(map(int, blocks)), 0, [0])
        if found > 1:
            raise ZeroDivisionError
        return found


@pytest.mark.parametrize("divides", [False, True])
def test_no_verdict_depends_on_a_summary(run: Path, divides: bool) -> None:
    found = examine_run(run, summary=lambda pieces: FailingSummary(pieces, divides))
    assert found.summarised is None and verdict_of(found) == in_one_piece(run)


def with_lines(run: Path) -> None:
    """As of a harness that was killed before it made segments of a trace."""
    (segment,) = (run / TRACE).parent.iterdir()
    segment.unlink()
    (run / TRACE).write_text("".join(NOISE % step for step in range(200)))
    with Manifest(run) as sealing:
        sealing.gone(f"traces/{segment.name}")
        sealing.seal_files([TRACE])


@pytest.mark.parametrize("bend", [with_lines, strangers.recorded_again])
def test_rows_that_can_not_be_read_apart_as_they_stand_are_judged_as_those_that_can(
    run: Path, bend: Callable[[Path], object]
) -> None:
    wanted, seen = in_one_piece(run), list[tuple[int, int]]()
    bend(run)
    assert pieces(run, manifest.read(run)) == ()
    found = verdict_of(examine_run(run, on_progress=lambda *progress: seen.append(progress)))
    assert seen, "it was divided"
    assert found == wanted and found.validity is Validity.VALID and not [*run.glob("pieces-*")]


def test_what_a_row_of_a_stranger_lacks_is_nothing_in_large_runs_too(tmp_path: Path) -> None:
    rng, table = random.Random(1), busy(3).recorded()
    rows = [{name: None if rng.random() < 0.05 else value for name, value in row.items()} for row in table.to_pylist()]
    lacking = [{**row, "index": at} for at, row in enumerate(rows)]
    nothing = {name: -1 if name in INTEGERS else "" for name in COLUMNS}
    filled = [{name: nothing[name] if row[name] is None else row[name] for name in row} for row in lacking]
    runs = [
        strangers.recorded(tmp_path / name, pa.Table.from_pylist(some, SCHEMA), seed=1, brokers=list(BROKERS))
        for name, some in (("filled", filled), ("lacking", lacking), ("unnumbered", rows))
    ]
    for least in (300, 1 << 30):
        with pytest.MonkeyPatch.context() as patched:
            make_large(patched, least, 200)
            whole, same, unnumbered = (verdict_of(examine_run(run)) for run in runs)
        assert whole == same and Validity.INVALID in {law.validity for law in whole.laws}
        assert unnumbered.validity is Validity.UNKNOWN and "a row has no number" in unnumbered.why[0]


def cut_off(run: Path) -> None:
    os.truncate(run / STREAM, (run / STREAM).stat().st_size // 2)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped bit": (lambda run: flip(run / STREAM), STREAM),
    "cut off": (cut_off, STREAM),
    "no end of the manifest": (lambda run: (run / manifest.FILE).write_bytes(half_a_manifest(run)), "manifest"),
    "a flipped bit of a trace": (lambda run: flip(*(run / TRACE).parent.iterdir()), "broker-9.0000.arrows"),
    "a row too few": (lambda run: directory.update_meta(run, rows=1 << 20), "of 1048576 recorded rows are left"),
}


def half_a_manifest(run: Path) -> bytes:
    whole = (run / manifest.FILE).read_bytes()
    return whole[: len(whole) // 2]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_unknown_and_says_why_as_in_one_piece(run: Path, damage: str) -> None:
    bend, words = DAMAGES[damage]
    bend(run)
    found = examine_run(run)
    assert words in " ".join(found.damage) and verdict_of(found) == in_one_piece(run)
    assert verdict_of(found).validity is Validity.UNKNOWN
    assert Validity.VALID not in {law.validity for law in verdict_of(found).laws}


def test_a_piece_that_changes_meanwhile_is_damage(run: Path, tmp_path: Path) -> None:
    """Whichever bit it is, of what was recorded and of what was made of it."""
    rng = random.Random(1)
    with Made(tmp_path) as made:
        made.add(History.open(run).recorded()[0])
        for piece in (*pieces(run, manifest.read(run)), *made.pieces):
            place, offset = Path(piece.place), getattr(piece, "offset", 0)
            whole = place.read_bytes()
            for at in rng.sample(range(piece.sum.length), 20):
                place.write_bytes(whole[: offset + at] + bytes([whole[offset + at] ^ 4]) + whole[offset + at + 1 :])
                with pytest.raises(DamagedHistory, match=rf"^{re.escape(piece.place)}: .* is not what was written"):
                    piece.read(["index"])
            place.unlink()
            with pytest.raises(DamagedHistory, match=rf"^{re.escape(piece.place)}: .*No such file"):
                piece.read()
            place.write_bytes(whole)


def strange(rng: random.Random, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as our recorder never writes them: operations that end otherwise than they began, and deliveries without an
    end; some ends come late."""
    kept = list[tuple[int, dict[str, Any]]]()
    gone, odd = rng.choice(((0, 0.1), (0.05, 0), (0.02, 0.02)))
    for row in rows:
        is_end = row["kind"] == "op" and row["op"] >= 0 and row["f"] != "delivered"
        if is_end and rng.random() < gone:
            continue
        other = rng.choice(({"process": "somebody"}, {"hash": 7})) if is_end and rng.random() < odd else {}
        late = rng.randrange(100) if is_end and rng.random() < 0.3 else 0
        kept.append((row["index"] + late, row | other))
    kept.sort(key=lambda one: one[0])
    place = {row["index"]: at for at, (_, row) in enumerate(kept)}
    return [{**row, "index": at, "op": place.get(row["op"], -1)} for at, (_, row) in enumerate(kept)]


def record(run: Path, rows: Sequence[dict[str, Any]]) -> None:
    run.mkdir()
    with closing(Recorder(run, lambda: 0, batch_rows=20, batch_ns=None)) as recorder:
        for row in rows:
            columns = {name: row[name] for name in GIVEN if name not in ("index", "value")}
            recorder.record(**columns, value=json.loads(row["value"] or "{}"))
    meta = {"seed": 1, "state": "finished", "deployment": "sim", "brokers": list(BROKERS), "rows": len(rows)}
    directory.write_meta(run, {**meta, "profile": {}, "queues": [{"index": queue} for queue in range(3)]})


@pytest.mark.parametrize(
    "seeds", [range(4), *(pytest.param(range(at, at + 15), marks=pytest.mark.full) for at in (4, 19, 34))]
)
def test_operations_whose_rows_must_be_looked_at_together_are(
    seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where queues are split, and their rows stand in several pieces."""
    joined: list[list[tuple[int, int]]] = []

    def noted(found: Sequence[Surveyed], firsts: Sequence[int]) -> list[tuple[int, int]]:
        joined.append(spans(found, firsts))
        return joined[-1]

    monkeypatch.setattr(divided, "spans", noted)
    make_large(monkeypatch, 50, 70)
    for seed in seeds:
        rng, run = random.Random(f"strange {seed}"), tmp_path / str(seed)
        record(run, strange(rng, busy(seed, queues=rng.choice((1, 2, 3)), sends=rng.choice((20, 40))).rows))
        monkeypatch.setattr(surveying, "TASK_ROWS", rng.choice((100, 20, 5)))
        with pytest.MonkeyPatch.context() as patched:
            make_large(patched, 1 << 30, 70)
            wanted = verdict_of(examine_run(run))
        assert verdict_of(examine_run(run)) == wanted, seed
    assert sum(map(bool, joined)) > len(seeds) / 4


def test_what_is_found_as_if_there_had_been_no_accident_is_that_of_one_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**row, "f": "accident"} if row["kind"] == "fault" else row for row in busy(4).rows]
    make_large(monkeypatch, 50, 70)
    record(tmp_path / "run", rows)
    large = examine_run(tmp_path / "run")
    make_large(monkeypatch, 1 << 30, 70)
    whole = examine_run(tmp_path / "run")
    assert large.accidents == whole.accidents != () and verdict_of(large) == verdict_of(whole)
    context = replace(whole.context, without_accidents=True)
    assert verdicts(context, large.as_if) == verdicts(context, whole.as_if) and len(large.as_if) > len(whole.as_if)


def looked_at(*pairs: tuple[int, int]) -> list[Surveyed]:
    return [Surveyed(halved_from=halved, delivered_from=delivered) for halved, delivered in pairs]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (looked_at((-1, -1), (-1, -1), (-1, -1)), []),
        (looked_at((-1, -1), (5, -1), (-1, -1)), [(0, 1)]),  # it begins in the first, and ends in the second
        (looked_at((-1, -1), (12, -1), (-1, -1)), []),  # both are in the second
        (looked_at((-1, -1), (-1, 12), (-1, -1)), [(1, 2)]),  # its end may be anywhere behind
        (looked_at((-1, -1), (-1, 3), (25, -1)), [(0, 2)]),
        (looked_at((-1, -1), (9, -1), (10, -1), (-1, -1), (31, -1), (-1, 49)), [(0, 2), (3, 5)]),
        (looked_at((-1, -1), (-1, -1), (1 << 40, -1)), []),  # a beginning that is in no piece
    ],
)
def test_pieces_with_rows_of_one_operation_are_found(found: list[Surveyed], wanted: list[tuple[int, int]]) -> None:
    assert spans(found, [10 * number for number in range(len(found))]) == wanted


class Failing(InProcess):
    """A session whose job comes to nothing in one of its stages, or whose worker has no memory."""

    def __init__(self, stage: str, error: BaseException) -> None:
        super().__init__()
        self._stage, self._error = stage, error

    def map(self, *given: Any) -> Any:
        return self._unless("survey", super().map, *given)

    def shuffled(self, *given: Any) -> Any:
        filed = self._unless("divide", super().shuffled, *given)
        collect = filed.collect

        def collected(work: Any, *more: Any) -> Any:
            return self._unless("chosen" if work is divided.chosen else "examine", collect, work, *more)

        filed.collect = collected
        return filed

    def _unless(self, stage: str, work: Callable[..., Any], *given: Any) -> Any:
        if stage == self._stage:
            raise self._error
        return work(*given)


@pytest.mark.parametrize("stage", ["survey", "divide", "chosen", "examine"])
@pytest.mark.parametrize("error", [JobFailed("no executor is left"), MemoryError()])
def test_a_job_that_comes_to_nothing_leaves_every_law_unknown(
    recorded: dict[str, Path], stage: str, error: BaseException
) -> None:
    with Failing(stage, error) as session:
        verdict = verdict_of(examine_run(recorded[BUG], session=session))  # type: ignore[arg-type]
    words = "the spark job failed: no executor is left" if isinstance(error, JobFailed) else "memory"
    judged = [law for law in verdict.laws if law.law not in OF_STORAGE]
    assert {verdict.validity, *(law.validity for law in judged)} == {Validity.UNKNOWN}
    assert words in verdict.why[0].lower() and all(words in law.why.lower() for law in judged)


def test_a_shard_for_which_there_is_no_memory_leaves_its_own_laws_unknown(
    recorded: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    gathered = divided.gathered

    def scarce(shared: Any, bucket: int, blocks: Any) -> Any:
        if shared.layout.name(bucket).startswith("node"):
            raise MemoryError
        return gathered(shared, bucket, blocks)

    monkeypatch.setattr(divided, "gathered", scarce)
    assert_some_are_unknown(
        verdict_of(examine_run(recorded[""])), "a worker ran out of memory when it read the shard node"
    )


@pytest.mark.spark
@pytest.mark.full
def test_a_shard_that_no_worker_survives_leaves_its_own_laws_unknown(
    recorded: dict[str, Path], session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divided, "examine_bucket", spark_work.examine_all_but_one)
    assert_some_are_unknown(verdict_of(examine_run(recorded[""], session=session)), "a Python worker died each time")


def assert_some_are_unknown(verdict: RunVerdict, words: str) -> None:
    unknown = [law for law in verdict.laws if law.validity is Validity.UNKNOWN]
    assert verdict.validity is Validity.UNKNOWN and 0 < len(unknown) < len(verdict.laws) / 2
    assert all(words in law.why for law in unknown)


class Full:
    """A file on a disk that is full, at the latest when something is written."""

    def __init__(self, *, max_size: int, **_: str) -> None:
        if max_size == 0:
            raise OSError(ENOSPC, "No space left on device")

    def tell(self) -> int:
        return 0

    def write(self, data: bytes) -> int:
        raise OSError(ENOSPC, "No space left on device")

    def close(self) -> None: ...


@pytest.mark.parametrize("held", [0, 1])
def test_a_full_disk_is_one_sentence_and_no_verdict(run: Path, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "MOST_HELD", held)
    monkeypatch.setattr(blocks, "SpooledTemporaryFile", Full)
    (run / directory.VERDICT).unlink(missing_ok=True)
    with pytest.raises(MachineError, match=r"cannot write the rows in .*run: No space left on device"):
        examine_run(run)
    assert not (run / directory.VERDICT).exists() and History.open(run).is_large
