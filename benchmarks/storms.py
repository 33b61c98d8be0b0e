"""Experiments on deployments, one run after the other: do they end with the same verdict everywhere?

``python -m benchmarks.storms [FILE…] --on netns --on process [--seeds A..B]`` runs each experiment (without a FILE: all
of ``examples/``) with each seed on each deployment, and prints a row for each experiment: the verdicts, how many
operations ended well, and how many faults of which kind had an effect. Each run is a line of ``.cache/storms.jsonl``
once it was judged: the same command goes on where it was, as long as the code is the same; ``--again`` runs once more
what came to neither VALID nor INVALID. Runs that were not VALID are kept in ``.cache/storms``. Who is no root has no
more rights than any user, so ``setpriv`` before this command shows what such a user can do.

Ends with 1 when a run came to no verdict, or deployments came to different ones with the same seed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.mutation.campaign import CACHE, stoppable
from benchmarks.mutation.mutants import ROOT
from benchmarks.mutation.state import code_version, noted
from chaos.history.history import History
from chaos.verdict import Validity
from stormproof.shipped import of_reference

DEPLOYMENTS = ("sim", "process", "netns", "docker", "ssh")
DECIDED = (Validity.VALID.value, Validity.INVALID.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """One run. ``verdict``: REFUSED when it was not begun; ``decided``: the laws that were VALID or INVALID;
    ``operations`` ended well; ``faults``: how often each had an effect; ``load`` of the machine, its last minute."""

    experiment: str
    deployment: str
    seed: int
    verdict: str
    why: tuple[str, ...] = ()
    anomalies: tuple[str, ...] = ()
    decided: tuple[str, ...] = ()
    operations: int = 0
    faults: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    load: float = 0.0


def main(words: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(words)
    files = [file.resolve() for file in given.files] or [*of_reference(ROOT).values()]
    first, _, last = given.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    plan = [(file, on, seed) for seed in seeds for file in files for on in given.on]
    code, began_s = code_version(ROOT), time.monotonic()
    known = read(given.state, code)
    if given.again:
        known = {key: storm for key, storm in known.items() if storm.verdict in DECIDED}
    try:
        with stoppable():
            for file, on, seed in plan:
                if (file.stem, on, seed) in known or time.monotonic() - began_s > given.for_s:
                    continue
                storm = run(file, on, seed, given.state.with_suffix(""), given.inventory)
                known[file.stem, on, seed] = storm
                with given.state.open("a", encoding="utf-8") as state:
                    state.write(json.dumps({"code": code, **asdict(storm)}) + "\n")
                print(f"{file.stem} {on} {seed}: {storm.verdict} {'; '.join(storm.why)}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    asked = [known[key] for file, on, seed in plan if (key := (file.stem, on, seed)) in known]
    wrong = list(problems(asked))
    print("\n".join([*table(asked), *wrong, f"{len(asked)} of {len(plan)} runs"]))
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storms", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="experiments (default: all of examples/)")
    parser.add_argument("--on", action="append", choices=DEPLOYMENTS, required=True, help="where; may be repeated")
    parser.add_argument("--seeds", default="0", metavar="A..B", help="default: %(default)s")
    parser.add_argument("--inventory", type=Path, help="the hosts of --on ssh")
    parser.add_argument("--for-s", type=float, default=float("inf"), help="begin no run after this time")
    parser.add_argument("--again", action="store_true", help="run again what came to no verdict")
    parser.add_argument("--state", type=Path, default=CACHE / "storms.jsonl", help="default: %(default)s")
    return parser


def read(path: Path, code: str) -> dict[tuple[str, str, int], Storm]:
    """Return what is known of this version of the code; a later line counts more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {}
    for fields in noted(path.read_text("utf-8") if path.exists() else "", code):
        lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        storm = Storm(**fields | lists)
        found[storm.experiment, storm.deployment, storm.seed] = storm
    return found


def run(file: Path, on: str, seed: int, folder: Path, inventory: Path | None = None) -> Storm:
    """Run an experiment. Its directory is kept unless it was VALID."""
    folder.mkdir(parents=True, exist_ok=True)
    words = ["run", file, "--on", on, "--seed", seed, "--engine", "local", "--json", "--out", folder]
    words += ["--inventory", inventory] if inventory else []
    began_s = time.monotonic()
    out, problem = _stormproof(folder, *map(str, words))
    times = {"seconds": round(time.monotonic() - began_s, 1), "load": round(os.getloadavg()[0], 1)}
    try:
        answer = json.loads(out)
    except ValueError:
        answer = {}
    found: dict[str, Any] = {"experiment": file.stem, "deployment": on, "seed": seed, **times}
    if "run" not in answer:
        return Storm(**found, verdict="REFUSED", why=tuple(problem.splitlines()))
    directory = folder / answer["run"]
    storm = Storm(
        **found,
        **evidence(directory),
        verdict=answer["verdict"],
        why=tuple(answer["why"]),
        anomalies=tuple(sorted(answer["anomalies"])),
    )
    if storm.verdict == Validity.VALID:
        shutil.rmtree(directory)
    return storm


def _stormproof(folder: Path, *words: str) -> tuple[str, str]:
    """Run the command; return what it prints to standard output and error. Who interrupts us has it undo its faults
    first."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "stormproof", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as command:
        try:
            return command.communicate()
        except KeyboardInterrupt:
            command.send_signal(signal.SIGINT)
            command.communicate()
            raise


def evidence(directory: Path) -> dict[str, Any]:
    """Return what a run's directory shows: laws decided, operations that ended well, faults with an effect."""
    laws = json.loads((directory / "verdict.json").read_text("utf-8")).get("laws", [])
    rows = History.open(directory).table.select(["kind", "type", "f", "value"]).to_pylist()
    ended = [(row["f"], json.loads(row["value"])) for row in rows if (row["kind"], row["type"]) == ("fault", "ok")]
    return {
        "decided": tuple(sorted(law["law"] for law in laws if law["validity"] in DECIDED)),
        "operations": sum(row["kind"] == "op" and row["type"] == "ok" and row["f"] != "delivered" for row in rows),
        "faults": dict(Counter(name for name, end in ended if end["phase"] == "undo" and end["effective"])),
    }


def table(storms: Sequence[Storm]) -> Iterator[str]:
    """Yield a row of Markdown for each experiment."""
    deployments = sorted({storm.deployment for storm in storms}, key=DEPLOYMENTS.index)
    yield "| " + " | ".join(["experiment", *deployments, "operations", "faults with effect"]) + " |"
    yield "|---" * (len(deployments) + 3) + "|"
    for name in sorted({storm.experiment for storm in storms}):
        ours = [storm for storm in storms if storm.experiment == name]
        faults: Counter[str] = Counter()
        for storm in ours:
            faults.update(storm.faults)
        cells = [
            ", ".join(f"{count} {verdict}" for verdict, count in sorted(Counter(verdicts).items()))
            for on in deployments
            for verdicts in [[storm.verdict for storm in ours if storm.deployment == on]]
        ]
        hits = ", ".join(f"{count} {fault}" for fault, count in sorted(faults.items()))
        yield "| " + " | ".join([name, *cells, f"{sum(storm.operations for storm in ours):,}", hits or "none"]) + " |"


def problems(storms: Sequence[Storm]) -> Iterator[str]:
    """Yield runs that came to no verdict, and experiments on whose verdict deployments differ; a sentence each."""
    by_seed: dict[tuple[str, int], dict[str, str]] = defaultdict(dict)
    for storm in storms:
        by_seed[storm.experiment, storm.seed][storm.deployment] = storm.verdict
        if storm.verdict not in DECIDED:
            what = f"{storm.experiment}, seed {storm.seed}, on {storm.deployment}"
            yield f"{what}: {storm.verdict} (load {storm.load:g}) {'; '.join(storm.why)}"
    for (name, seed), verdicts in by_seed.items():
        if len(set(verdicts.values()) & set(DECIDED)) > 1:
            listing = ", ".join(f"{verdict} on {on}" for on, verdict in verdicts.items())
            yield f"{name}, seed {seed}: {listing}"


if __name__ == "__main__":
    sys.exit(main())
