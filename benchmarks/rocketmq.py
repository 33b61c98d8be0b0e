"""Apache RocketMQ through the experiments of ``examples/rocketmq``, and the table of what came out.

``python -m benchmarks.rocketmq [--runs N]`` (``make rocketmq``) runs each experiment N times with the seeds 0 to N-1 on
``netns``, the controls first, and notes every judged run in ``benchmarks/rocketmq_runs.jsonl``. What is noted there is
not run again, so that Ctrl-C and the same command go on. Then the table in ``docs/rocketmq.md`` is made from the notes.
``--record RUN...`` notes runs that were made otherwise, and ``--table`` only makes the table. A run that could not be
carried out is told and not noted. Ends with 1 when there was one.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPERIMENTS = ROOT / "examples" / "rocketmq"
NOTES = ROOT / "benchmarks" / "rocketmq_runs.jsonl"
PAGE = ROOT / "docs" / "rocketmq.md"
OUT = ROOT / ".cache" / "rocketmq"
RUNS = 3
#: What nothing may be held against: no fault, and faults that leave the master alone.
CONTROLS = ("control", "tier_control", "slaves")
CONTROL_RUNS = 10
BEGIN, END = "<!-- made by: python -m benchmarks.rocketmq --table -->\n", "<!-- end of the table -->\n"
#: Exit codes of a run that was judged: VALID, INVALID, UNKNOWN, did not recover.
JUDGED = (0, 1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One judged run. ``laws``: its verdict by each; ``anomalies``: how many of each that is a violation;
    ``without_ms``: the longest time in which no send was acknowledged."""

    experiment: str
    version: str
    seed: int
    started: str
    verdict: str
    laws: Mapping[str, str]
    anomalies: Mapping[str, int]
    acked: int
    without_ms: int

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.experiment, self.version, self.seed, self.started


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rocketmq", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="of each experiment (default: %(default)s)")
    parser.add_argument("--control-runs", type=int, default=CONTROL_RUNS, help="of controls (default: %(default)s)")
    parser.add_argument("--only", nargs="*", metavar="NAME", help="these experiments (default: all)")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the runs (default: %(default)s)")
    parser.add_argument("--record", nargs="*", type=Path, metavar="RUN", help="note these runs instead of new ones")
    parser.add_argument("--table", action="store_true", help="run nothing, make the table")
    options = parser.parse_args(words)
    notes = read_notes(NOTES)
    if options.record:
        append(NOTES, [one for one in map(note_of, options.record) if one.key not in {old.key for old in notes}])
    failed = []
    if not options.table and not options.record:
        failed = run_all(wanted(options.only or names(), options.runs, options.control_runs, notes), options.out)
    PAGE.write_text(with_table(PAGE.read_text("utf-8"), table(read_notes(NOTES))), "utf-8")
    print("\n".join(failed) or f"the table in {PAGE.relative_to(ROOT)} is made")
    return 1 if failed else 0


def names() -> list[str]:
    found = sorted(path.stem for path in EXPERIMENTS.glob("*.yaml"))
    return [*CONTROLS, *(name for name in found if name not in CONTROLS)]


def wanted(experiments: Iterable[str], runs: int, control_runs: int, notes: Sequence[Note]) -> list[tuple[str, int]]:
    """Experiments and seeds that are not noted yet for the version in the file, all experiments in turns."""
    known = {(note.experiment, note.version, note.seed) for note in notes}
    each = {name: control_runs if name in CONTROLS else runs for name in experiments}
    return [
        (name, seed)
        for seed in range(max(each.values(), default=0))
        for name, count in each.items()
        if seed < count and (name, version_in((EXPERIMENTS / f"{name}.yaml").read_text("utf-8")), seed) not in known
    ]


def run_all(jobs: Sequence[tuple[str, int]], out: Path) -> list[str]:
    """Run and note each; returns a sentence for each that could not be carried out."""
    failed = []
    for number, (name, seed) in enumerate(jobs, start=1):
        print(f"{number} of {len(jobs)}: {name}, seed {seed}", file=sys.stderr, flush=True)
        words = ["run", str(EXPERIMENTS / f"{name}.yaml"), "--on", "netns", "--seed", str(seed), "--engine", "local"]
        command = [sys.executable, "-m", "stormproof", *words, "--out", str(out)]
        before = set(out.glob("*/verdict.json"))
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False)
        made = sorted(set(out.glob("*/verdict.json")) - before)
        if ended.returncode in JUDGED and made:
            append(NOTES, [note_of(made[-1].parent)])
        else:
            failed.append(f"{name}, seed {seed}: exit code {ended.returncode}")
    return failed


def note_of(run: Path) -> Note:
    verdict = json.loads((run / "verdict.json").read_text("utf-8"))
    about = json.loads((run / "run.json").read_text("utf-8"))
    counts = {law["law"]: law["counts"] for law in verdict["laws"]}
    version = version_in((run / "experiment.yaml").read_text("utf-8"))
    name = about["name"].removeprefix("rocketmq-").removesuffix(f"-{version.replace('.', '')}").replace("-", "_")
    return Note(
        experiment=name,
        version=version,
        seed=verdict["seed"],
        started=about["started"],
        verdict=verdict["verdict"],
        laws={law["law"].replace("_", "-"): law["validity"] for law in verdict["laws"]},
        anomalies=verdict["anomalies"],
        acked=counts.get("durability", {}).get("acked", 0),
        without_ms=counts.get("availability", {}).get("longest_without_ok_ms", 0),
    )


def version_in(experiment: str) -> str:
    found = re.search(r"\bversion: ([\w.]+)", experiment)
    return found[1] if found else ""


def read_notes(path: Path) -> list[Note]:
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [Note(**json.loads(line)) for line in lines]


def append(path: Path, notes: Iterable[Note]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(note)) + "\n" for note in notes)


def table(notes: Sequence[Note]) -> str:
    """Experiment by law: how many of the runs that could be judged were INVALID."""
    laws = [law for law in _laws(notes) if any(note.laws.get(law) not in (None, "NOT APPLICABLE") for note in notes)]
    groups = sorted({(note.experiment, note.version) for note in notes}, key=_order)
    head = ["experiment", "version", "runs", *laws, "violations, most in a run", "s without service, p50 / max"]
    rows = [head, ["---"] * len(head)]
    for name, version in groups:
        mine = [note for note in notes if (note.experiment, note.version) == (name, version)]
        rows.append(
            [f"`{name}`", version, str(len(mine)), *(_cell(mine, law) for law in laws), _most(mine), _gaps(mine)]
        )
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _order(group: tuple[str, str]) -> tuple[int, str, str]:
    name, version = group
    return (CONTROLS.index(name) if name in CONTROLS else len(CONTROLS), name, version)


def _laws(notes: Sequence[Note]) -> list[str]:
    return list(dict.fromkeys(law for note in notes for law in note.laws))


def _cell(notes: Sequence[Note], law: str) -> str:
    """``–`` for no violation in any run, ``2/3`` for two in three, ``?`` for runs that decided nothing, ``n/a``."""
    told = Counter(note.laws.get(law, "NOT APPLICABLE") for note in notes)
    judged = told["VALID"] + told["INVALID"]
    if told["INVALID"]:
        return f"{told['INVALID']}/{judged}"
    return "–" if judged else "?" if told["UNKNOWN"] else "n/a"


def _most(notes: Sequence[Note]) -> str:
    most: dict[str, int] = {}
    for note in notes:
        for name, count in note.anomalies.items():
            most[name] = max(most.get(name, 0), count)
    return ", ".join(f"{name} {count}" for name, count in sorted(most.items())) or "–"


def _gaps(notes: Sequence[Note]) -> str:
    gaps = [note.without_ms / 1000 for note in notes]
    return f"{statistics.median(gaps):.0f} / {max(gaps):.0f}"


def with_table(page: str, made: str) -> str:
    """The page with this table between its two marks. Raises ``ValueError`` for a page without them."""
    before, mark, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not mark or not end:
        raise ValueError(f"docs/rocketmq.md must hold the lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n{made}\n{END}{after}"


if __name__ == "__main__":
    sys.exit(main())
