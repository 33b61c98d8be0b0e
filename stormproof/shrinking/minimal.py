"""What a search leaves in a directory beside the run: the small experiment, what it is, and a test of it."""

from __future__ import annotations

import dataclasses
import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import MachineError
from chaos.experiment.model import REPLAYED_ON
from chaos.experiment.reader import load
from chaos.judging.run import ExaminedRun
from chaos.version import VERSION
from reports.printable import argument
from reports.run_report.shrunk import SUMMARY
from stormproof.launch import Launch
from stormproof.shrinking.document import SEED, Document, text
from stormproof.shrinking.freedom import Free
from stormproof.shrinking.shrink import Best, Case
from stormproof.shrinking.trial import FILE, Trial, examined, record

TEST = "test_minimal.py"
#: The test holds the experiment itself, so that it can be put anywhere.
TEST_TEXT = '''\
"""{title}, found by stormproof {version} with seed {seed}. It fails until the bug is gone."""

import json
import subprocess
import sys

EXPERIMENT = """\\
{experiment}"""


def test_{name}(tmp_path):
    file = tmp_path / "minimal.yaml"
    file.write_text(EXPERIMENT)
    words = {words}
    command = [sys.executable, "-m", "stormproof", "run", str(file), *words, "--out", str(tmp_path / "runs")]
    for _ in range({times}):{why}
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode in (0, 1, 2, 4), done.stderr
        found = json.loads(done.stdout)["anomalies"]
        assert not {{{anomalies}}} & set(found), found
'''


def make(run: Path) -> Path:
    """Make a new directory beside the run. Raises :class:`MachineError`."""
    try:
        for number in count(1):
            path = run.parent / (f"{run.name}-shrunk" + (f"-{number}" if number > 1 else ""))
            try:
                path.mkdir()
                return path
            except FileExistsError:
                continue
    except OSError as error:
        raise MachineError(f"cannot make a directory beside {run}: {error.strerror or error}") from error
    raise AssertionError("count() has no end")


def left(directory: Path) -> str:
    """Return what a search that could not go on has left, in a sentence; a directory without anything is removed."""
    if (directory / FILE).exists():
        return f"the best so far is {directory / FILE}"
    with suppress(OSError):
        directory.rmdir()
    return "nothing was kept, for not even the first experiment could be written"


def replay(case: Case, seed: int, file: Path) -> str:
    """Return the command that does the small run again."""
    words = ["stormproof", "run", argument(file), "--on", case.deployment, "--seed", str(seed)]
    return shlex.join([*words, "--bug", case.mutant] if case.mutant else words)


def write(directory: Path, case: Case, document: Document, trial: Trial, free: Sequence[Free] = ()) -> None:
    """Write the experiment, which says itself how it is run again; an earlier one is there until the new one is.
    ``free``: numbers that may be any. Raises :class:`MachineError`."""
    any_ = "".join(f"# any: {one}\n" for one in free)
    seed = document.get(SEED, case.seed)
    where = {"on": case.deployment} if case.deployment in REPLAYED_ON else {}
    again = {**where, "seed": seed, **({"bug": case.mutant} if case.mutant else {})}
    guarded.write(directory / FILE, f"{_head(case, seed, trial)}{any_}\n{text({**document, 'replay': again})}")


def finish(directory: Path, case: Case, best: Best) -> dict[str, Any]:
    """Do the small run once more, for its report; write what was found and the test. Returns what ``minimal.json``
    says. Raises :class:`MachineError` when that run isn't the one that the search saw, though it is simulated."""
    from reports import render

    write(directory, case, best.document, best.trial, best.free)
    run, trial = _once_more(directory, case, _seed(case, best))
    if case.often is None and trial.digest != best.trial.digest:
        raise MachineError(f"{directory / FILE} gave another history in this process; this is a bug of stormproof")
    if case.often is not None:
        best = dataclasses.replace(best, trial=dataclasses.replace(best.trial, rate=trial.rate))
        write(directory, case, best.document, best.trial)
    summary = describe(directory, case, best, run)
    guarded.write(directory / SUMMARY, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
    guarded.write(directory / TEST, test_of(case, best))
    render(run)  # it shows both runs side by side
    return summary


def _once_more(directory: Path, case: Case, seed: int) -> tuple[Path, Trial]:
    """Do the small run again in the directory. Where none comes again as it was, do it several times: those that led to
    it were chosen because they failed, and only new ones show at which rate it does. The first that failed is shown."""
    file, times = directory / FILE, case.often.times if case.often is not None else 1
    experiment = load(file, deployment=case.deployment, mutant=case.mutant)
    launch = Launch(
        experiment=experiment, file=file, deployment=case.deployment, seed=seed, mutant=case.mutant, out=directory
    )
    runs: list[ExaminedRun] = []
    try:
        while len(runs) < times:
            runs.append(record(launch))
    except KeyboardInterrupt:
        if not runs:
            raise
    trials = [examined(run) for run in runs]
    kept = [place for place, trial in enumerate(trials) if case.wanted.kept_by(trial.failures)]
    shown = kept[0] if kept else 0
    return runs[shown].directory, dataclasses.replace(trials[shown], rate=(len(kept), len(runs)))


def _seed(case: Case, best: Best) -> int:
    seed: int = best.document.get(SEED, case.seed)
    return seed


def describe(directory: Path, case: Case, best: Best, run: Path) -> dict[str, Any]:
    assert best.trial.size is not None
    return {
        "run": str(case.run),
        "minimal": str(directory / FILE),
        "test": str(directory / TEST),
        "recorded": str(run),
        "replay": replay(case, _seed(case, best), directory / FILE),
        "seed": _seed(case, best),
        "mutant": case.mutant,
        "version": VERSION,
        **_sameness(case, best.trial),
        "signature": {
            "law": case.wanted.law,
            "anomalies": list(case.wanted.anomalies),
            "cause": str(case.wanted.origin),
        },
        "before": dataclasses.asdict(case.before),
        "after": dataclasses.asdict(best.trial.size),
        "any": [str(one) for one in best.free],
        "stopped": str(best.stop),
        "tried": best.tried,
        "rounds": best.rounds,
        "took_s": round(best.seconds, 1),
    }


def _sameness(case: Case, trial: Trial) -> dict[str, Any]:
    """Return, of a simulated run, its digest; of any other how often it failed: [in so many, of so many] runs."""
    if case.often is None or case.begun is None:
        return {"digest": trial.digest}
    return {"rate": {"before": list(case.begun.rate), "after": list(trial.rate)}}


def _head(case: Case, seed: int, trial: Trial) -> str:
    """Return what nobody should have to look for elsewhere, as comments."""
    on = "" if case.deployment in REPLAYED_ON else f" --on {case.deployment}"
    what = f"Seed {seed}{f', mutant {case.mutant}' if case.mutant else ''}, stormproof {VERSION}"
    failed, runs = trial.rate
    lines = (
        f"Shrunk from the run {case.run.name}, which breaks",
        f"{case.wanted}.",
        f"Replay: stormproof run {FILE}{on}",
        *([f"{what}, digest", trial.digest] if case.often is None else [f"{what}; {failed} of {runs} runs failed so"]),
    )
    return "".join(f"# {line}\n" for line in lines)


def test_of(case: Case, best: Best) -> str:
    """Return a test to be pasted anywhere, which fails while the bug is there."""
    words = ["--on", case.deployment, "--seed", str(_seed(case, best)), "--engine", "local", "--json"]
    words += ["--bug", case.mutant] if case.mutant else []
    return TEST_TEXT.format(
        title=f"{', '.join(case.wanted.anomalies)} ({case.wanted.law})",
        version=VERSION,
        seed=_seed(case, best),
        experiment=text(best.document).replace("\\", "\\\\").replace('"""', '\\"\\"\\"'),
        name=case.wanted.law.replace("-", "_"),
        words=json.dumps(words),
        times=case.often.times if case.often is not None else 1,
        why="  # no run comes again as it was" if case.often is not None else "",
        anomalies=", ".join(json.dumps(name) for name in case.wanted.anomalies),
    )
