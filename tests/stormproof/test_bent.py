"""Runs can't be bent: whatever is flipped in a run's directory makes it UNKNOWN and is named; none becomes VALID by it,
nor INVALID."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from chaos.errors import BadInput, DamagedHistory, DeploymentError
from chaos.experiment.reader import load
from chaos.history import directory, manifest
from chaos.history.history import History
from chaos.history.manifest import Manifest
from chaos.history.recorder import STREAM, Recorder
from chaos.history.seal_traces import seal_traces
from chaos.judging import engine
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.run import runner
from chaos.verdict import Engine, RunVerdict, Validity
from reports import render
from stormproof import cli
from stormproof.launch import Launch, start
from tests.chaos.history.runs import write_shard
from tests.stormproof.strangers import recorded_again
from tests.stormproof.test_trouble import CALM

TRACE, SEGMENT = "traces/broker-0.jsonl", "traces/broker-1.0000.arrows"
#: Bytes drawn of what isn't flipped byte by byte.
DRAWN = 600


@dataclass(frozen=True)
class Flip:
    """One byte of a file, and the bits of it that are turned."""

    name: str
    at: int
    bits: int

    def apply(self, run: Path) -> None:
        data = bytearray((run / self.name).read_bytes())
        data[self.at] ^= self.bits
        (run / self.name).write_bytes(data)


def calm(folder: Path) -> Path:
    """Run the experiment; what stands there then."""
    file, out = folder / "calm.yaml", folder / "runs"
    file.write_text(CALM)
    experiment = load(file, deployment="sim")
    return start(Launch(experiment=experiment, file=file, deployment="sim", seed=0, mutant="", out=out))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A VALID run in the simulator, with sealed traces of two processes beside it, one of them as lines; judged."""
    run = calm(tmp_path_factory.mktemp("bent"))
    (run / TRACE).parent.mkdir(exist_ok=True)
    (run / "traces/broker-1.jsonl").write_text('{"f": "noise", "node": "broker-1", "step": 2}\n' * 3)
    seal_traces(run)
    (run / TRACE).write_text('{"f": "noise", "node": "broker-0", "step": 2}\n' * 3)
    with Manifest(run) as sealing:
        sealing.seal_files([TRACE])
    assert check(run).validity is Validity.VALID
    return run


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def broken(run: Path) -> Path:
    """An INVALID run: two messages were acknowledged at one place."""
    run.mkdir()
    recorder = Recorder(run, lambda: 5)
    for message in (1, 2):
        row = {"process": "p.0", "queue": 0, "message": message, "hash": message}
        asked = recorder.record("op", type="invoke", f="send", **row)
        recorder.record("op", type="ok", f="send", op=asked, offset=4, node="broker-0", epoch=1, **row)
    recorder.record("harness", f="end", value={"interrupted": False})
    recorder.close()
    told = {"seed": 9, "state": "finished", "rows": 5, "queues": [{"index": 0}], "profile": {"acks": "all"}}
    directory.write_meta(run, {**told, "nodes": [], "faults": [], "bounds": {}, "workloads": ["queue"]})
    assert check(run).validity is Validity.INVALID
    return run


def check(run: Path) -> RunVerdict:
    return judge([examine_run(run)], engine=Engine.LOCAL)[0]


def headers(run: Path) -> Iterator[int]:
    """The places of the stream that hold no rows, but say where they stand."""
    data = (run / STREAM).read_bytes()
    for batch in manifest.read(run).batches:
        reader, at = pa.BufferReader(data[batch.offset : batch.offset + batch.sum.length]), 0
        while at < batch.sum.length:
            message = pa.ipc.read_message(reader)
            yield from range(batch.offset + at, batch.offset + at + 8 + message.metadata.size)
            at = reader.tell()


def flips(name: str, places: Iterable[int], rng: Random) -> list[Flip]:
    return [Flip(name, at, 1 << rng.randrange(8)) for at in places]


def assert_each_is_named(run: Path, flipped: Iterable[Flip]) -> int:
    """Every one of these must be damage, told with the name of its file. (A damaged run is UNKNOWN whatever the laws
    find, so that they aren't asked.) Returns how many there were."""
    count = 0
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "examine_whole", lambda table, context: [])
        for flip in flipped:
            whole = (run / flip.name).read_bytes()
            flip.apply(run)
            found = examine_run(run)
            assert any(flip.name in sentence for sentence in found.damage), (flip, found.damage)
            (run / flip.name).write_bytes(whole)
            count += 1
        assert examine_run(run).damage == (), "nothing else was written"
    return count


def size(run: Path, name: str) -> range:
    return range((run / name).stat().st_size)


def test_a_flipped_bit_anywhere_is_damage_and_named(run: Path) -> None:
    rng = Random(1)
    names = (directory.META, directory.EXPERIMENT, manifest.FILE, STREAM, TRACE, SEGMENT)
    flipped = [flip for name in names for flip in flips(name, rng.sample(size(run, name), 12), rng)]
    flipped += flips(STREAM, rng.sample(list(headers(run)), 12), rng)
    assert assert_each_is_named(run, flipped) == 84


@pytest.mark.full
def test_every_byte_that_says_what_a_run_is_and_many_of_the_rest(run: Path) -> None:
    rng = Random(2)
    names = (directory.META, directory.EXPERIMENT, manifest.FILE)
    flipped = [flip for name in names for flip in flips(name, size(run, name), rng)]
    flipped += [Flip(name, at, 0xFF) for name in names for at in size(run, name)[::16]]
    flipped += flips(TRACE, rng.sample(size(run, TRACE), min(DRAWN, len(size(run, TRACE)))), rng)
    flipped += flips(SEGMENT, rng.sample(size(run, SEGMENT), 100), rng)
    flipped += flips(STREAM, [*headers(run)][::3], rng)
    flipped += flips(STREAM, rng.sample(size(run, STREAM), DRAWN // 2), rng)
    assert_each_is_named(run, flipped)
    name = str(recorded_again(run).relative_to(run))
    assert_each_is_named(run, flips(name, rng.sample(size(run, name), DRAWN // 2), rng))


@pytest.mark.parametrize("name", [directory.META, directory.EXPERIMENT, manifest.FILE, STREAM, TRACE, SEGMENT])
def test_what_was_flipped_makes_a_valid_run_unknown(run: Path, name: str) -> None:
    Flip(name, len(size(run, name)) // 2, 1).apply(run)
    verdict = check(run)
    assert verdict.validity is Validity.UNKNOWN and name in " ".join(verdict.why)
    assert Validity.VALID not in {law.validity for law in verdict.laws}


@pytest.mark.parametrize("name", [directory.META, manifest.FILE, STREAM])
def test_what_was_flipped_makes_no_invalid_run_valid(tmp_path: Path, name: str) -> None:
    run = broken(tmp_path / "run")
    for share in (0.2, 0.5, 0.9):
        other = tmp_path / f"run-{share}"
        shutil.copytree(run, other)
        Flip(name, int(len(size(run, name)) * share), 1).apply(other)
        assert check(other).validity is Validity.UNKNOWN


EDITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "weaker acks": (lambda run: edit(run, '"acks": "all"', '"acks": "master"'), "run.json is not what was written"),
    "unknown acks": (lambda run: edit(run, '"acks": "all"', '"acks": "alle"'), "run.json: profile: acks"),
    "acks of many digits": (
        lambda run: edit(run, '"acks": "all"', '"acks": "%s"' % ("9" * 5000)),
        "run.json: profile: acks",
    ),
    "acks of another alphabet": (lambda run: edit(run, '"acks": "all"', '"acks": "²"'), "run.json: profile: acks"),
    "another key": (lambda run: edit(run, '"acks": "all"', '"ack": "master"'), "run.json: profile: unknown 'ack'"),
    "a truth": (lambda run: edit(run, '"unclean": false', '"unclean": 1'), "run.json: profile: unclean"),
    "evidence": (lambda run: edit(run, '"confirm",', '"confirn",'), "run.json: tells: unknown 'confirn'"),
    "bounds": (lambda run: edit(run, '"available_s": 10.0', '"available_s": -1'), "run.json: bounds: available_s"),
    "a queue": (lambda run: edit(run, '"index": 0', '"index": 1'), "run.json: queues: entry 0"),
    "a state": (lambda run: edit(run, '"state": "finished"', '"state": "done"'), "run.json: state: unknown"),
    "a seed": (lambda run: edit(run, '"seed": 0', '"seed": -1'), "run.json: seed"),
    "a boolean": (lambda run: edit(run, '"seed": 0', '"seed": true'), "seed: must be"),
    "no experiment": (lambda run: (run / directory.EXPERIMENT).unlink(), "experiment.yaml is missing"),
    "no trace": (lambda run: (run / TRACE).unlink(), f"{TRACE} is missing"),
    "another trace": (lambda run: (run / "traces/x.jsonl").write_text("{}\n"), "traces/x.jsonl is not in the manifest"),
    "no segment of a trace": (lambda run: (run / SEGMENT).unlink(), f"{SEGMENT} is missing"),
    "a longer trace": (lambda run: os.truncate(run / TRACE, 3 << 30), f"{TRACE} is not what was written"),
    "a longer history": (lambda run: os.truncate(run / STREAM, 3 << 30), "are not vouched for"),
    "no manifest": (lambda run: (run / manifest.FILE).unlink(), "there is no manifest"),
    "no history": (lambda run: (run / STREAM).unlink(), f"holds no history: neither {STREAM}"),
    "a line less": (lambda run: cut_line(run, 2), "manifest: line 3 is damaged"),
    "an end less": (lambda run: (run / manifest.FILE).write_bytes(lines(run, 4)), "run.json is not what was written"),
}


def edit(run: Path, old: str, new: str) -> None:
    text = (run / directory.META).read_text()
    assert text.count(old) == 1, old
    (run / directory.META).write_text(text.replace(old, new))


def lines(run: Path, count: int) -> bytes:
    return b"".join((run / manifest.FILE).read_bytes().splitlines(keepends=True)[:count])


def cut_line(run: Path, number: int) -> None:
    whole = (run / manifest.FILE).read_bytes().splitlines(keepends=True)
    (run / manifest.FILE).write_bytes(b"".join(whole[:number] + whole[number + 1 :]))


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_unknown_and_names_the_file(run: Path, name: str) -> None:
    bend, words = EDITS[name]
    bend(run)
    verdict = check(run)
    assert verdict.validity is Validity.UNKNOWN and words in " ".join(verdict.why), verdict.why


def test_a_run_that_was_bent_is_not_sealed_anew(run: Path) -> None:
    edit(run, '"acks": "all"', '"acks": "master"')
    directory.update_meta(run, state="finished")
    assert check(run).validity is Validity.UNKNOWN


def test_shards_do_not_stand_in_for_a_history_that_was_deleted(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They hold the same rows, and are sealed; but the manifest speaks of a file that isn't there."""
    write_shard(run, "all-0", History.open(run).table)
    (run / STREAM).unlink()
    directory.seal(run)
    verdict = check(run)
    assert verdict.validity is Validity.UNKNOWN and f"{STREAM} is missing" in " ".join(verdict.why)
    assert Validity.INVALID not in {law.validity for law in verdict.laws}
    assert cli._run(["diff", str(run), str(run)]) == 0
    assert f"{STREAM} is missing" in capsys.readouterr().err


def test_a_run_that_failed_is_sealed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it has recorded until then may show that the system is to blame."""

    def fail(*_: object, directory: Path, **__: object) -> None:
        (directory / "traces").mkdir()
        (directory / TRACE).write_text("{}\n")
        raise DeploymentError("the cluster was not ready")

    monkeypatch.setattr(runner, "run", fail)
    with pytest.raises(DeploymentError):
        calm(tmp_path)
    (failed,) = directory.runs(tmp_path / "runs")
    assert directory.read_meta(failed).json["state"] == "failed"
    assert examine_run(failed).damage == ()


def test_a_verdict_that_was_bent_is_not_shown_but_written_anew(run: Path) -> None:
    text = (run / directory.VERDICT).read_text()
    (run / directory.VERDICT).write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(DamagedHistory, match=r"verdict\.json is not what was written.*run `stormproof check`"):
        render(run)
    assert check(run).validity is Validity.VALID
    assert directory.read_verdict(run).seed == 0


def special(path: Path, kind: str) -> None:
    if path.exists():
        path.unlink()
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link":
            path.symlink_to("/dev/zero")
        case "huge":
            path.touch()
            os.truncate(path, 5 << 30)


READ = (directory.META, directory.EXPERIMENT, manifest.FILE, STREAM, TRACE, SEGMENT, "shards/all-0.parquet")


@pytest.mark.parametrize("kind", ["pipe", "link", "huge"])
@pytest.mark.parametrize("name", READ)
def test_what_is_no_file_to_read_is_refused_in_a_sentence(
    run: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if name.endswith(".parquet"):
        recorded_again(run)
    special(run / name, kind)
    code = cli._run(["check", str(run), "--engine", "local"])
    err = capsys.readouterr().err
    assert code == 3 and "Traceback" not in err and len(err.splitlines()) == 1, err
    assert name in err


@pytest.mark.parametrize(
    ("command", "name"),
    [("check", directory.META), ("report", directory.META), ("report", directory.VERDICT), ("heal", directory.META)],
)
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a": ' * 100_000, '{"seed": ' + "9" * 5_000 + "}"])
def test_json_that_nobody_could_hold_is_refused_in_a_sentence(
    run: Path, name: str, text: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / name).write_text(text)
    code = cli._run([command, str(run), *(["--engine", "local"] if command == "check" else [])])
    err = capsys.readouterr().err
    assert code == 3 and "Traceback" not in err and len(err.splitlines()) == 1 and name in err, err


def test_a_trace_that_is_nested_too_deeply_is_damage(run: Path) -> None:
    for number, deep in enumerate(["[" * 100_000, '{"value": "' + "[" * 100_000 + '"}', '{"value": "[]"}']):
        (run / "traces" / f"odd-{number}.jsonl").write_text(deep + "\n{}\n")
    told = " ".join(examine_run(run).damage)
    assert all(f"odd-{number}.jsonl:1 is no trace row" in told for number in range(3))


def test_folders_that_lead_elsewhere_are_refused(run: Path) -> None:
    (run / "traces").rename(run.parent / "elsewhere")
    (run / "traces").symlink_to(run.parent / "elsewhere")
    with pytest.raises(BadInput, match="traces is a link"):
        examine_run(run)
