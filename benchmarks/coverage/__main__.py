"""What storms reach of the reference system, and what they never did.

``python -m benchmarks.coverage [EXAMPLE...] --seeds A..B [--write]`` runs experiments of ``examples/`` (all, unless
some are named) in the simulator with each of the seeds, one process a core, and reports which branches of the reference
system's policy ran in how many runs, which faults met which roles in which phase, and which goals were reached; what
never was is listed. ``--write`` puts it into ``benchmarks/results/coverage.md``. Tracing takes about as long again as
the runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from benchmarks.coverage import page
from benchmarks.coverage.branches import sources
from benchmarks.coverage.runs import EXPERIMENTS, ROOT, run_all
from benchmarks.mutation.state import commit

PAGE = ROOT / "benchmarks" / "results" / "coverage.md"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help="names of examples; all without")
    parser.add_argument("--seeds", default="1..3", help="A..B, both inclusive (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes at a time")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(words)
    known = [*EXPERIMENTS]
    chosen = options.examples or known
    if wrong := sorted(set(chosen) - set(known)):
        parser.error(f"no example is called {', '.join(wrong)}")
    first, _, last = options.seeds.partition("..")
    seeds = range(int(first), int(last or first) + 1)
    jobs = [(name, seed) for name in chosen for seed in seeds]
    texts = {file: path.read_text("utf-8") for file, path in sources(ROOT).items()}
    text = page.write(run_all(jobs, options.workers), seeds, texts, commit(ROOT))
    if options.write:
        PAGE.write_text(text, "utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
