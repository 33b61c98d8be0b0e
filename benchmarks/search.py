"""Whether a search that learns beats random seeds: ``python -m benchmarks.search [MUTANT…] [--tries N]``.

Each planted bug is looked for in a small experiment with random faults, in two ways, until its law finds it or the runs
are used up:

* random: one seed after the other;
* learned: schedules are kept that showed an abstract state, or a fault in a state of the cluster, that no run of this
  try had shown before (:mod:`reports.sweeps.observed`). Most runs are one of those with a fault moved, stretched,
  taken away, copied from another one, or with other draws; the others are new seeds.

Both begin with the same seeds. Prints a row of the table in ``benchmarks/results/search.md`` for each bug. Each try is
a line of ``.cache/search.jsonl`` once it has ended: the same command goes on where it was, as long as the code is the
same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from benchmarks.mutation.campaign import CACHE
from benchmarks.mutation.mutants import ROOT
from benchmarks.mutation.state import code_version, noted
from chaos.errors import ChaosError
from chaos.experiment.reader import load
from chaos.history.history import History
from chaos.judging.outcome import judge
from chaos.verdict import Engine
from reference.mutants import MUTANTS, Planted
from reports.sweeps.observed import observe
from stormproof.launch import SIM, Launch
from stormproof.shrinking.document import Document, duration, pinned, seconds, text
from stormproof.shrinking.trial import record

EXPERIMENT = """\
name: search
system:
  reference: {brokers: 3, controllers: 1, queues: 1, nameservers: 1, tier: false}
duration: 5s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 20}
faults:
  - partition: {shape: isolate, target: one}
    random: {mean: 2s}
    for: 800ms
  - kill: {target: one}
    random: {mean: 3s}
    for: 500ms
  - pause: {target: one}
    random: {mean: 3s}
    for: 500ms
"""
LENGTH_S = 5.0
#: Bugs that this experiment can show.
BUGS = ("ack-before-replication", "election-outside-set", "dispatch-past-confirm")
#: So many runs a try may take, and so many of them begin a learned one as seeds.
MOST, WARM = 25, 4
#: The part of the later runs of a learned try that are new seeds.
FRESH = 0.25
#: Of a fault: how far it may move, and how much longer or shorter it may last.
MOVES_S, STRETCHES = 1.0, (0.3, 3.0)
HEAD = """\
| mutant | tries | median of runs until found, random | learned | found in {most} runs, random | learned |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a run showed: whether the law was broken, and what it went through."""

    found: bool
    seen: frozenset[str]


def tried(planted: Planted, number: int, *, learned: bool) -> int:
    """How many runs one try takes until the law finds the bug; 0 if it doesn't."""
    rng, seeds = Random(f"{planted.name}/{number}"), iter(range(1000 * number, 1000 * number + MOST))
    seen: set[str] = set()
    kept: list[tuple[Document, int]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for run in range(1, MOST + 1):
            if not learned or run <= WARM or not kept or rng.random() < FRESH:
                document, seed = _of_seed(next(seeds), planted.name, Path(scratch))
            else:
                document, seed = mutated(rng, kept)
            shown = _shown(document, seed, planted, Path(scratch) / str(run))
            if shown.found:
                return run
            if shown.seen - seen:
                seen |= shown.seen
                kept.append((document, seed))
    return 0


def mutated(rng: Random, kept: Sequence[tuple[Document, int]]) -> tuple[Document, int]:
    """One of those that are kept, changed in one to three places; later ones are likelier."""
    document, seed = rng.choices(kept, weights=range(1, len(kept) + 1))[0]
    faults = [dict(fault) for fault in document.get("faults", ())]
    for _ in range(rng.randint(1, 3)):
        faults = list(_changed(faults, rng, kept))
    return {**document, "faults": faults}, seed


def _changed(
    faults: list[dict[str, Any]], rng: Random, kept: Sequence[tuple[Document, int]]
) -> Iterator[dict[str, Any]]:
    others = [dict(fault) for document, _ in kept for fault in document.get("faults", ())]
    what = rng.choice(("move", "stretch", "draw", "add", "drop"))
    if (what == "add" or not faults) and others:
        faults = [*faults, rng.choice(others)]
    chosen = rng.randrange(len(faults)) if faults else -1
    for place, fault in enumerate(faults):
        if place != chosen:
            yield fault
        elif what == "move" or what == "add":
            at_s = min(max(0.0, seconds(fault["at"]) + rng.uniform(-MOVES_S, MOVES_S)), LENGTH_S * 0.98)
            yield {**fault, "at": duration(round(at_s, 4))}
        elif what == "stretch":
            yield {**fault, "for": duration(round(seconds(fault["for"]) * rng.uniform(*STRETCHES), 4))}
        elif what == "draw":
            yield {**fault, "draws": f"{rng.randrange(3)}/{rng.randrange(1000)}"}
        elif len(faults) == 1:
            yield fault


def _of_seed(seed: int, mutant: str, scratch: Path) -> tuple[Document, int]:
    file = scratch / "search.yaml"
    file.write_text(EXPERIMENT, "utf-8")
    return pinned(load(file, deployment=SIM, mutant=mutant), seed), seed


def _shown(document: Document, seed: int, planted: Planted, folder: Path) -> Shown:
    folder.mkdir()
    file = folder / "search.yaml"
    file.write_text(text(document), "utf-8")
    experiment = load(file, deployment=SIM, mutant=planted.name)
    launch = Launch(experiment=experiment, file=file, deployment=SIM, seed=seed, mutant=planted.name, out=folder)
    try:
        run = record(launch)
    except ChaosError:  # a run that came to no end shows nothing, in either way
        return Shown(found=False, seen=frozenset())
    (verdict,) = judge([run], engine=Engine.LOCAL)
    seen = observe(History.open(run.directory))
    return Shown(
        found=any(law.law == planted.law and law.anomalies for law in verdict.laws),
        seen=frozenset((*seen.states, *seen.hits)),
    )


def known(file: Path, code: str) -> dict[tuple[str, int, bool], int]:
    """Return the tries that have ended, as (mutant, number, learned), and their runs."""
    rows = noted(file.read_text("utf-8") if file.exists() else "", code)
    return {(row["mutant"], row["try"], row["learned"]): row["runs"] for row in rows}


def row(name: str, random: Sequence[int], learned: Sequence[int]) -> str:
    """Return a row of the table. Tries without a find count as more runs than there were."""
    cells = [_median(runs) for runs in (random, learned)]
    cells += [f"{sum(map(bool, runs))} of {len(runs)}" for runs in (random, learned)]
    return f"| `{name}` | {len(random)} | {' | '.join(cells)} |"


def _median(runs: Sequence[int]) -> str:
    found = median(one or MOST + 1 for one in runs)
    return f"{found:g}" if found <= MOST else f"more than {MOST}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("mutants", nargs="*", default=BUGS, help=f"names of mutants (default: {', '.join(BUGS)})")
    parser.add_argument("--tries", type=int, default=30, help="for each mutant and way (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=CACHE / "search.jsonl", help="what is known (default: %(default)s)")
    options = parser.parse_args()
    bugs = {one.name: one for one in MUTANTS}
    if unknown := sorted(set(options.mutants) - set(bugs)):
        print(f"error: no mutant has the name {', '.join(unknown)}", file=sys.stderr)
        return 3
    code = f"{code_version(ROOT)}-{hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"
    rows = known(options.out, code)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    asked = [(name, n, way) for n in range(options.tries) for name in options.mutants for way in (False, True)]
    try:
        for key in (one for one in asked if one not in rows):
            name, number, learned = key
            rows[key] = tried(bugs[name], number, learned=learned)
            line = {"mutant": name, "try": number, "learned": learned, "runs": rows[key], "code": code}
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
    print(HEAD.format(most=MOST), end="")
    for name in options.mutants:
        ended = [n for n in range(options.tries) if (name, n, False) in rows and (name, n, True) in rows]
        if ended:
            print(row(name, *([rows[name, n, way] for n in ended] for way in (False, True))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
