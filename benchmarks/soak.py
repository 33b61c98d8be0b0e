"""A long run at full speed, followed while it goes on: does the harness's memory grow, and is what it recorded judged?

``python -m benchmarks.soak [--file FILE] [--json]`` (``make soak``) runs ``benchmarks/soak.yaml`` on processes for
twenty minutes, follows it with ``stormproof check --follow``, and judges it. Every five seconds it notes the resident
memory of the harness's own process (recorder, proxies, clients, supervisor) and of the command that follows. What
counts is how much the harness had in the second and in the last quarter of the load, so that what is loaded at the
start and what judging takes do not. The run stays in ``.cache/soak`` with its report. Ends with the run's exit code.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._common import Figure, parser, show
from chaos.experiment import reader as experiments
from chaos.history import directory as store

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "benchmarks" / "soak.yaml"
OUT = ROOT / ".cache" / "soak"
SAMPLE_S = 5.0
#: What two cores should acknowledge in twenty minutes, with every trace written.
AIM_MESSAGES = 700_000
#: The harness may have so many MiB more in the last quarter than in the second.
AIM_GROWTH_MIB = 32


@dataclass(slots=True)
class Watched:
    """A command of ours: its process, and the resident memory of that process, as (monotonic seconds, MiB)."""

    process: subprocess.Popen[str]
    samples: list[tuple[float, float]] = field(default_factory=list)

    def goes_on(self) -> bool:
        """Return whether it goes on; then its memory is noted, too."""
        if self.process.poll() is not None:
            return False
        status = Path(f"/proc/{self.process.pid}/status").read_text("ascii", "replace")
        if found := re.search(r"VmRSS:\s+(\d+) kB", status):
            self.samples.append((time.monotonic(), int(found[1]) / 1024))
        return True

    def during(self, begin_s: float, end_s: float) -> list[float]:
        return [mib for moment_s, mib in self.samples if begin_s <= moment_s < end_s]


def main() -> int:
    arguments = parser("soak", __doc__)
    arguments.add_argument("--file", type=Path, default=FILE, help="the experiment (default: benchmarks/soak.yaml)")
    given = arguments.parse_args()
    seconds = experiments.load(given.file, deployment="process").duration_s
    OUT.mkdir(parents=True, exist_ok=True)
    before = set(store.runs(OUT))
    harness = Watched(_stormproof("run", str(given.file), "--on", "process", "--engine", "local", "--json"))
    run = _began(harness, before)
    follower = Watched(_stormproof("check", str(run), "--follow", "--json"))
    began_s = time.monotonic()
    while any([harness.goes_on(), follower.goes_on()]):
        time.sleep(SAMPLE_S)
    show("soak", _figures(run, harness, follower, began_s, seconds), as_json=given.json)
    return harness.process.returncode


def _began(harness: Watched, before: set[Path]) -> Path:
    """Return the run that the harness makes, once it is there."""
    while harness.goes_on():
        if made := set(store.runs(OUT)) - before:
            return made.pop()
        time.sleep(0.2)
    sys.exit(f"No run has begun; see {OUT / 'run.log'}.")


def _stormproof(command: str, *words: str) -> subprocess.Popen[str]:
    log = (OUT / f"{command}.log").open("w", encoding="utf-8")
    arguments = [sys.executable, "-u", "-m", "stormproof", command, *words, "--out", str(OUT)]
    return subprocess.Popen(arguments, cwd=ROOT, text=True, stdout=log, stderr=subprocess.STDOUT)


def _figures(run: Path, harness: Watched, follower: Watched, began_s: float, seconds: float) -> Sequence[Figure]:
    verdict = store.read_verdict(run)
    counts = {law.law: law.counts for law in verdict.laws}
    second, last = (
        statistics.median(harness.during(began_s + share * seconds, began_s + (share + 0.25) * seconds))
        for share in (0.25, 0.75)
    )
    acked = counts["durability"]["acked"]
    return [
        Figure(name="acknowledged", value=acked, unit="", aim=AIM_MESSAGES, more_is_better=True),
        Figure(name="acknowledged_per_s", value=round(acked / seconds), unit=""),
        Figure(name="violations", value=len(verdict.anomaly_counts()), unit="", aim=0),
        Figure(name="harness_second_quarter", value=round(second), unit="MiB"),
        Figure(name="harness_last_quarter", value=round(last), unit="MiB"),
        Figure(name="harness_growth", value=round(last - second), unit="MiB", aim=AIM_GROWTH_MIB),
        Figure(name="judging_most", value=round(max(mib for _, mib in harness.samples)), unit="MiB"),
        Figure(name="following_most", value=round(max(mib for _, mib in follower.samples)), unit="MiB"),
        Figure(name="longest_without_ok", value=counts["availability"]["longest_without_ok_ms"], unit="ms"),
        Figure(name="recorded", value=round(sum(f.stat().st_size for f in _recorded(run)) / 2**20), unit="MiB"),
        Figure(name="judged_after", value=round(harness.samples[-1][0] - began_s - seconds), unit="s"),
    ]


def _recorded(run: Path) -> list[Path]:
    return [run / "history.arrows", *(run / "traces").iterdir()]


if __name__ == "__main__":
    sys.exit(main())
