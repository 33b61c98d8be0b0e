"""Trouble as users meet it: one clear message, the right exit code, nothing lost, and no traceback."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.errors import MachineError
from chaos.history import directory
from chaos.history.manifest import Manifest
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run
from chaos.verdict import Engine, Validity
from stormproof import cli
from stormproof.outcome import in_words
from tests.stormproof.strangers import recorded_again

ROOT = Path(__file__).parents[2]
CALM = """\
name: calm
system: {reference: {controllers: 1, brokers: 2, queues: 1}}
duration: 2s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 40}
faults:
  - pause: {target: slave}
    at: 500ms
    for: 500ms
"""
AGAIN = CALM[CALM.index("  - pause") :]


def stormproof(
    cwd: Path,
    *words: object,
    limit_bytes: int = 0,
    limit_files: int = 0,
    stdout: object = subprocess.PIPE,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """The real command. ``limit_bytes``: no file can grow beyond, as on a full disk; ``limit_files``: it can open no
    more."""

    def limit() -> None:
        if limit_bytes:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        if limit_files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit_files, limit_files))

    done = subprocess.run(
        [sys.executable, "-P", "-m", "stormproof", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdin=subprocess.DEVNULL,
        stdout=stdout,  # type: ignore[call-overload]
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        preexec_fn=limit,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A run in the simulator, with a trace file of a process beside it."""
    folder = tmp_path_factory.mktemp("trouble")
    (folder / "calm.yaml").write_text(CALM)
    done = stormproof(folder, "run", "calm.yaml", "--on", "sim", "--engine", "local", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["verdict"] == "VALID", done.stderr
    assert done.stderr == ""
    return folder / told["run"]


@pytest.fixture
def run(recorded, tmp_path) -> Path:
    shutil.copytree(recorded, tmp_path / "run")
    return tmp_path / "run"


def check(capsys, run: Path, command: str = "check") -> tuple[int, str, str]:
    words = [command, str(run), *(["--engine", "local"] if command == "check" else [])]
    code = cli._run(words)
    told = capsys.readouterr()
    assert "Traceback" not in told.err
    return code, told.out, told.err


def flip(path: Path, share: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * share)] ^= 4
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (lambda run: os.truncate(run / "history.arrows", 20_000), "is cut off"),
    "emptied": (lambda run: os.truncate(run / "history.arrows", 0), "is cut off"),
    "flipped": (lambda run: flip(run / "history.arrows", 0.5), "has a wrong checksum"),
    "flipped early": (lambda run: flip(run / "history.arrows", 0.001), "has a wrong checksum"),
    "no manifest": (lambda run: (run / "manifest").unlink(), "there is no manifest"),
    "odd manifest": (lambda run: (run / "manifest").write_bytes(b"\xff\x00\n" * 9), "manifest: line 1 is damaged"),
    "no history": (lambda run: (run / "history.arrows").unlink(), "holds no history"),
    "flipped shard": (lambda run: flip(recorded_again(run), 0.3), "all-0.parquet is not what was written"),
    "no Parquet": (lambda run: recorded_again(run).write_bytes(b"hello"), "all-0.parquet is not what was written"),
}


#: Seven lines of aliases that stand for millions of values.
LAUGHS = "- &a [1]\n" + "".join(
    f"- &{name} [{', '.join(['*' + before] * 9)}]\n" for before, name in ("ab", "bc", "cd", "de", "ef", "fg", "gh")
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_history_is_unknown_and_says_why(run, damage):
    spoil, words = DAMAGES[damage]
    spoil(run)
    (verdict,) = judge([examine_run(run)], engine=Engine.LOCAL)
    first, *further = verdict.why  # of what can be counted the number of lost rows stands before what did it
    assert verdict.validity is Validity.UNKNOWN
    assert words in (further[0] if first.endswith("recorded rows are left") else first)


def test_the_page_says_what_is_wrong_with_the_history(capsys, run):
    flip(run / "history.arrows", 0.5)
    code, out, _ = check(capsys, run)
    assert code == 2 and "has a wrong checksum" in out
    assert "has a wrong checksum" in (run / "report.html").read_text()


@pytest.mark.parametrize(
    "line",
    [b"[1]", b"\xff\xfe{}", b'{"queue": 123456789012345678901234567890}', b'{"queue": "x"}', b'{"f": "sta'],
)
def test_a_trace_line_that_is_none_is_unknown(run, line):
    (run / "traces").mkdir(exist_ok=True)
    (run / "traces" / "broker-0.jsonl").write_bytes(line + b'\n{"f": "noise", "node": "broker-0", "step": 2}\n')
    (verdict,) = judge([examine_run(run)], engine=Engine.LOCAL)
    assert verdict.validity is Validity.UNKNOWN
    assert "traces/broker-0.jsonl:1 is no trace row; it is left out" in verdict.why


def test_a_digit_that_changed_in_a_trace_is_noticed(capsys, run):
    trace = run / "traces" / "broker-0.jsonl"
    trace.parent.mkdir(exist_ok=True)
    trace.write_text('{"f": "noise", "node": "broker-0", "step": 2}\n')
    assert "traces/broker-0.jsonl is not in the manifest" in examine_run(run).damage
    with Manifest(run) as manifest:
        manifest.seal_files(["traces/broker-0.jsonl"])
    assert check(capsys, run)[0] == 0
    trace.write_text(trace.read_text().replace("2", "3"))
    code, out, _ = check(capsys, run)
    assert code == 2 and "traces/broker-0.jsonl is not what was written" in out


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "is not JSON"), ('{"seed"', "is not JSON"), ("[]", "no JSON object"), ('{"seed": "x"}', "seed: must be")],
)
def test_a_torn_run_json_is_unknown_and_says_why(capsys, run, text, words):
    (run / "run.json").write_text(text)
    code, out, err = check(capsys, run)
    assert code == 2 and words in out and len(err.splitlines()) == 1
    code, out, err = check(capsys, run, "heal")
    assert code == 3 and out == "" and words in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "words"), [("{}", "it has no 'verdict'"), ('{"a', "is not JSON"), (None, "not judged")]
)
def test_a_verdict_that_is_none_makes_no_report(capsys, run, text, words):
    (run / "verdict.json").unlink()
    if text is not None:
        (run / "verdict.json").write_text(text)
    code, _, err = check(capsys, run, "report")
    assert code == 3 and words in err and len(err.splitlines()) == 1


def test_a_run_of_which_only_the_verdict_was_kept_keeps_it(capsys, run):
    before = (run / "verdict.json").read_bytes()
    directory.trim(run)
    code, _, err = check(capsys, run)
    assert code == 3 and "do it again with `stormproof run calm.yaml --on sim --seed 0`" in err
    assert (run / "verdict.json").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &a [*a]\n", "1: this contains itself"),
        (LAUGHS, "more than"),
        ("[" * 1500, "nested too deeply"),
        ("? [a, b]\n: c\n", "1: a key must be a word"),
        ("name: 2026-02-31\n", "'2026-02-31' is no value"),
        ("\tname: x\n", "1: this is not YAML"),
        ("---\na: 1\n---\nb: 2\n", "3: this is not YAML"),
        (CALM + "  - kill\n    at: 1s\n", ": `kill` has keys of its own below: write `kill: {}`"),
        ("a:\n  - b\n  c: 1\n", "3: this is not YAML"),
        ("duration: 999999999h\n", "more than a year"),
        (f"duration: '{'1' * 500_000}'\n", "expected a duration"),
        (f"duration: 0x{'f' * 5000}\n", "larger than any number here"),
        ("%YAML 9.9\n---\n" + CALM, "1: this is not YAML: found incompatible YAML document"),
        ("%YAML 1.9\n---\n" + CALM, "this is not YAML: version minor part"),
        ('duration: !!int ""\n', "1: '' is no value"),
        ("system: {reference: {queues: [1]}}\n", "queues: expected an integer, got [1]"),
        (CALM + "  - switch: {mode: [1]}\n    at: 1s\n", "mode: expected 'planned' or 'forced', got [1]"),
        ("name: -rf\n", "a letter or digit first, got '-rf'"),
        ("# " + "x" * (1 << 20), "1,048,578 bytes; at most 1,048,576 are read"),
        pytest.param("[" * 100_000, "nested too deeply", marks=pytest.mark.full),
        ("- " * 100_000, "nested too deeply"),
        (CALM.replace("at: 500ms", "every: 0.5ms"), "every: 0.5ms is too short; a period is 1ms at least"),
        (CALM.replace("at: 500ms", "random: {mean: 0.5ms}"), "mean: 0.5ms is too short"),
        (CALM.replace("at: 500ms", "every: 1ms").replace("2s", "101s"), "would fire 101,000 times in 101s"),
        (CALM.replace("at: 500ms", "random: {mean: 1ms}").replace("2s", "4h"), "fire 144,000 times"),
        (CALM + AGAIN.replace("at: 500ms", "when: {event: append, times: 100000}"), "fire 100,001 times"),
        (f"{'k' * 100}: 1\n" * 300, "and 203 more mistakes"),
        (f"name: {'n' * 101}\n", "at most 100 bytes"),
        ("system: {reference: {brokers: 0}}\n", "brokers: expected 1 to 9, got 0"),
        ("system: {reference: {controllers: 2}}\n", "controllers: expected one of 1, 3, 5, got 2"),
        ("system: {reference: {brokers: 1}}\n", "needs 2 replicas for a write (min_in_sync, acks)"),
        ("system: reference\nprofile: {acks: 7}\n", "needs 7 replicas for a write"),
        ("profile: {min_in_sync: 0}\n", "min_in_sync: expected 1 to 9, got 0"),
        ("workloads: [queue: {rate_per_s: 0}]\n", "rate_per_s: must be more than 0"),
        ("workloads: [queue: {rate_per_s: .nan}]\n", "rate_per_s: expected a number"),
        ("workloads: [queue: {rate_per_s: .inf}]\n", "rate_per_s: expected a number"),
    ],
)  # fmt: skip
def test_no_document_is_too_strange_for_a_message(capsys, tmp_path, text, words):
    (tmp_path / "odd.yaml").write_text(text)
    code = cli._run(["run", str(tmp_path / "odd.yaml"), "--on", "sim"])
    err = capsys.readouterr().err
    assert code == 3 and words in err and "Traceback" not in err


def test_a_disk_that_is_full_in_mid_run_keeps_what_was_recorded(recorded, tmp_path):
    (tmp_path / "calm.yaml").write_text(CALM)
    run = ["run", "calm.yaml", "--on", "sim", "--engine", "local"]
    done = stormproof(tmp_path, *run, limit_bytes=(recorded / "history.arrows").stat().st_size // 2)
    assert done.returncode == 3 and "what was recorded before is kept" in done.stderr
    assert done.stdout.splitlines()[-1] == "stormproof run calm.yaml --on sim --seed 0"
    done = stormproof(tmp_path, "check", "latest", "--engine", "local")
    assert done.returncode == 2 and "the run did not come to its end" in done.stdout


def test_a_disk_that_is_full_before_the_report_costs_only_the_report(run):
    page = (run / "report.html").read_bytes()
    largest = max(path.stat().st_size for path in run.rglob("*") if path.is_file() and path.suffix != ".html")
    assert len(page) > largest, "this test needs a history that is smaller than its report"
    done = stormproof(run.parent, "report", run, limit_bytes=len(page) - 1000)
    assert done.returncode == 3 and "cannot write the report" in done.stderr
    assert (run / "report.html").read_bytes() == page and not (run / "report.new").exists()


def test_who_stops_reading_is_no_violation(tmp_path):
    read, write = os.pipe()
    os.close(read)
    done = stormproof(tmp_path, "list", "faults", stdout=write)
    os.close(write)
    assert done.returncode == 3 and done.stderr == ""


def test_a_cluster_of_programs_that_could_open_too_few_files_is_not_started(tmp_path, capsys, monkeypatch):
    (tmp_path / "calm.yaml").write_text(CALM)
    monkeypatch.setattr(resource, "getrlimit", lambda what: (24, 24))
    run = ["run", str(tmp_path / "calm.yaml"), "--on", "process", "--engine", "local", "--out", str(tmp_path / "runs")]
    assert cli._run(run) == 3
    assert (
        "--on process: programs must be able to open 256 files each, and here they can open 24; raise"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "runs").exists()


def test_too_few_files_are_said_to_be_too_few(tmp_path):
    (tmp_path / "calm.yaml").write_text(CALM)
    done = stormproof(tmp_path, "run", "calm.yaml", "--on", "sim", "--engine", "local", limit_files=6)
    assert done.returncode == 3 and "bug of" not in done.stderr
    assert "oo many open files" in done.stderr


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files", "x"), "x: too many open files: raise the limit"),
        (OSError(errno.ENOSPC, "No space left on device"), "while writing: No space left on device"),
        (MemoryError(), "there is not enough memory"),
        (RuntimeError("can't start new thread"), "raise the limit with `ulimit -u`"),
        (MachineError("it is off"), "it is off"),
        (KeyError("x"), "a bug of the harness: KeyError: 'x'"),
    ],
)
def test_what_a_machine_lacks_is_no_bug_of_the_harness(error, words):
    assert words in in_words(error)
    try:
        raise ExceptionGroup("several", [ValueError("not this one"), error])
    except ExceptionGroup as several:
        assert isinstance(error, KeyError | MachineError) or words in in_words(several)
    inner = RuntimeError("something else")
    inner.__cause__ = error
    assert isinstance(error, KeyError | MachineError) or words in in_words(inner)


def test_a_full_stdout_is_one_message(tmp_path):
    with open("/dev/full", "w") as full:
        done = stormproof(tmp_path, "list", "faults", "--json", stdout=full)
    assert done.returncode == 3 and done.stderr == "error: while writing: No space left on device\n"


def test_a_closed_stdout_takes_no_file_s_place(tmp_path):
    (tmp_path / "calm.yaml").write_text(CALM)
    words = f"{sys.executable} -P -m stormproof run calm.yaml --on sim --engine local >&- 2>&-"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["/bin/sh", "-c", words], cwd=tmp_path, env=environment, timeout=60, check=False)
    assert done.returncode == 0
    (run,) = directory.runs(tmp_path / "runs")
    assert directory.read_verdict(run).validity == "VALID"


def test_no_colour_where_nobody_looks(run):
    done = stormproof(run.parent, "list", "faults")
    assert done.returncode == 0 and "\x1b" not in done.stdout + done.stderr


@pytest.mark.process
def test_a_folder_with_packages_of_our_names_changes_nothing_for_nodes(tmp_path):
    (tmp_path / "calm.yaml").write_text(CALM)
    for name in ("chaos", "reference", "drivers", "workloads", "nemesis", "checkers", "reports", "examples", "numpy"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemError('not ours')")
    done = stormproof(tmp_path, "run", "calm.yaml", "--on", "process", "--engine", "local", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "VALID" and done.stderr == ""
