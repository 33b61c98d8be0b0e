"""Judging a large recording, the page included: in process, and on Spark with one core and with two.

``python -m benchmarks.check [RUN]``: RUN is a run of the reference system on processes without any fault; without one
it is recorded (``benchmarks/longer/load.yaml``, half a minute). It is made longer (:mod:`benchmarks.longer`), once and
ten times as much, and each command is timed with all of its processes: those that outlive their parents become children
of this one. Commands take turns; each figure is a median.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks._common import Figure, machine, parser, show
from benchmarks.longer.__main__ import Longer
from chaos.history.directory import read_verdict, runs

LOAD = Path(__file__).parent / "longer" / "load.yaml"
IN_PROCESS, ONE_CORE, TWO_CORES = ("--engine", "local"), ("--master", "local[1]"), ("--master", "local[2]")
_PR_SET_CHILD_SUBREAPER = 36
#: So often it is looked at what each process has taken.
SAMPLE_S = 0.1


@dataclass(frozen=True, slots=True)
class Took:
    """What one command took: seconds by the clock, of processors, and the most memory that any process of it had."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def timed(run: Path, words: Sequence[str]) -> Took:
    """Judge a run. The figures are measured in a process of their own, whose only children they are of."""
    read, write = os.pipe()
    if not (child := os.fork()):
        os.close(read)
        os.write(write, repr(_timed(run, words)).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        figures = pipe.read()
    os.waitpid(child, 0)
    return Took(*map(float, figures.strip("()").split(",")))


def _timed(run: Path, words: Sequence[str]) -> tuple[float, float, float]:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    began, cpu_s, peak_mib = time.monotonic(), dict[int, float](), 0.0
    line = [sys.executable, "-m", "stormproof", "check", str(run), *words]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as check:
        while check.poll() is None:
            for pid in _below(os.getpid()):
                with suppress(OSError):  # it has ended meanwhile
                    cpu_s[pid], peak = _used(pid)
                    peak_mib = max(peak_mib, peak)
            time.sleep(SAMPLE_S)
    wall_s = time.monotonic() - began
    assert check.returncode == 0
    return wall_s, sum(cpu_s.values()), peak_mib


def _below(root: int) -> set[int]:
    """Return the processes that this one has started, and those that they have."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {root}


def _used(pid: int) -> tuple[float, float]:
    """Return the processor time that a process took, and the most memory that it had. What the workers of Spark took,
    who are killed at the end, no parent counts."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    peak = next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak / 1024


def start_s() -> float:
    """How long a session of Spark takes to start and to run an empty job, by the clock."""
    script = "from chaos.judging.spark import rehearse; rehearse()"
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    return time.monotonic() - began


def recorded(folder: Path) -> Path:
    """Record a short run under load."""
    words = ("run", LOAD, "--on", "process", "--seed", "1", "--engine", "local", "--out", folder)
    subprocess.run([sys.executable, "-m", "stormproof", *words], check=True, capture_output=True)
    (run,) = runs(folder)
    return run


def longer(short: Path, folder: Path, times: int) -> Path:
    made = folder / f"times-{times}"
    Longer(short).write(made, times)
    return made


def messages(run: Path) -> int:
    """How many messages were acknowledged, as the verdict counts them."""
    return next(law.counts["acked"] for law in read_verdict(run).laws if law.law == "durability")


def main() -> None:
    asked = parser("check", __doc__)
    asked.add_argument("run", type=Path, nargs="?")
    asked.add_argument("--times", type=int, default=30, help="copies of the run's load in the smaller recording")
    asked.add_argument("--rounds", type=int, default=3)
    given = asked.parse_args()
    with TemporaryDirectory(dir=given.run.parent if given.run else None) as name:
        folder = Path(name)
        short = given.run or recorded(folder / "runs")
        small, large = (longer(short, folder, times) for times in (given.times, 10 * given.times))
        starts: list[float] = []
        took: dict[tuple[str, ...], list[Took]] = {words: [] for words in (IN_PROCESS, ONE_CORE, TWO_CORES)}
        for _ in range(given.rounds):
            starts.append(start_s())
            for words, found in took.items():
                found.append(timed(small, words))
        ten_times = timed(large, TWO_CORES)
        found_out = figures(took, ten_times, median(starts), messages(small))
    if given.json:
        print(json.dumps({"benchmark": "check", "machine": machine(), **{one.name: one.value for one in found_out}}))
    else:
        show("check", found_out, as_json=False)


def figures(took: dict[tuple[str, ...], list[Took]], ten_times: Took, start: float, acknowledged: int) -> list[Figure]:
    walls = {words: median(one.wall_s for one in found) for words, found in took.items()}
    cpu_us = {words: 1e6 * median(one.cpu_s for one in found) / acknowledged for words, found in took.items()}
    ratio = (walls[ONE_CORE] - start) / (walls[TWO_CORES] - start)
    growth = (ten_times.wall_s - start) / (walls[TWO_CORES] - start)
    peak = max(one.peak_mib for one in (ten_times, *took[TWO_CORES]))
    return [
        Figure(name="messages", value=acknowledged, unit=""),
        Figure(name="two_cores_s", value=round(walls[TWO_CORES], 1), unit="s"),
        Figure(name="one_core_s", value=round(walls[ONE_CORE], 1), unit="s"),
        Figure(name="in_process_s", value=round(walls[IN_PROCESS], 1), unit="s"),
        Figure(name="spark_start_s", value=round(start, 1), unit="s"),
        Figure(name="ratio_two_cores", value=round(ratio, 2), unit="", aim=1.65, more_is_better=True),
        Figure(name="cpu_us_a_message", value=round(cpu_us[TWO_CORES], 1), unit="µs", aim=33),
        Figure(name="cpu_us_in_process", value=round(cpu_us[IN_PROCESS], 1), unit="µs", aim=23),
        Figure(name="growth_ten_times", value=round(growth, 2), unit="", aim=10.5),
        Figure(name="peak_mib", value=round(peak), unit="MiB", aim=1536),
    ]


if __name__ == "__main__":
    main()
