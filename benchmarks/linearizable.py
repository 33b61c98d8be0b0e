"""The linearizability checker against Porcupine: same files, same models, same limits, measured in turn in one run.

``python -m benchmarks.linearizable [--json] [--series NAME]... [--rounds N] [--limit S] [--knossos DIR]``

Needs Go, to build the rival (``benchmarks/rivals/porcupine``), and network access for its module the first time.
Porcupine's own test data come with that module. ``--knossos`` names a folder with Knossos's cas-register files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from py4j.java_gateway import find_jar_path

from benchmarks import _histories, _many_keys
from benchmarks._common import Figure, parser, show
from chaos.judging.class_archive import find_java
from checkers.linearizable.formats.files import read
from checkers.linearizable.gateway import JVM_OPTIONS, archive_path
from checkers.linearizable.history import History
from checkers.linearizable.jar import JAR
from checkers.linearizable.packing import pack

ROOT = Path(__file__).resolve().parent.parent
RIVAL = ROOT / "benchmarks" / "rivals" / "porcupine"
CACHE = ROOT / ".cache" / "rivals"
MODULE = "github.com/anishathalye/porcupine"
#: Passes in one JVM: the first is cold, the best of the others warm.
PASSES = 6
OUT_OF_MEMORY = 9
MANY_KEYS = "spark-keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """What both check. ``limit_s`` for each history; ``memory_mib`` for ours, Porcupine may take ``rival_mib``. Aims:
    ratios to Porcupine's time on as many threads, and absolute ones in milliseconds; None where there is none."""

    name: str
    histories: Callable[[], Iterable[History]]
    limit_s: float = 10.0
    memory_mib: int = 1024
    rival_mib: int = 8192
    every_key: bool = False
    passes: int = PASSES
    cold_ratio: float | None = None
    warm_ratio: float | None = None
    whole_ratio: float | None = None
    cold_ms: float | None = None
    most_ms: float | None = None  # for the slowest history, cold
    undecided: int | None = None
    peak_mib: float | None = None
    threads: Sequence[int] = (1,)


@dataclass(slots=True)
class Measured:
    """Milliseconds for all histories together, the best of all rounds; verdicts by history; and what they cost."""

    cold_ms: float = float("inf")
    warm_ms: float = float("inf")
    whole_ms: float = float("inf")
    slowest_ms: float = 0.0
    peak_mib: float = 0.0
    verdicts: Mapping[str, object] = field(default_factory=dict)

    def add(self, passes: Sequence[Sequence[Mapping[str, Any]]], whole_ms: float) -> None:
        times = [sum(float(line["ms"]) for line in lines) for lines in passes]
        slowest = max(float(line["ms"]) for line in passes[0])
        self.slowest_ms = min(self.slowest_ms or slowest, slowest)
        self.cold_ms = min(self.cold_ms, times[0])
        self.warm_ms = min([self.warm_ms, *times[1:]])
        if len(passes) == 1:
            self.whole_ms = min(self.whole_ms, whole_ms)
        self.peak_mib = max(self.peak_mib, *(float(line["peak_mib"]) for line in passes[0]))
        self.verdicts = {str(line["id"]): line["valid"] for line in passes[-1]}

    @property
    def undecided(self) -> int:
        return sum(verdict == "unknown" for verdict in self.verdicts.values())


# What is measured


def series(knossos: Path | None) -> list[Series]:
    """All series, in the order of the table in ``benchmarks/results/linearizability.md``."""
    data = _rival_data()
    etcd = sorted(path for path in (data / "jepsen").glob("etcd_*.log") if path.stem != "etcd_095")
    maps = sorted((data / "kv").glob("*.txt"))
    found = [
        Series(
            name="etcd",
            histories=lambda: _from_files(etcd, "porcupine-etcd", "cas-register"),
            cold_ratio=0.6,
            warm_ratio=0.2,
            whole_ratio=1.0,
            undecided=0,
        ),
        Series(name="kv", histories=lambda: _from_files(maps, "porcupine-kv", "kv"), threads=(1, 0)),
        Series(
            name="kv-50-clients",
            histories=_histories.key_values,
            limit_s=60.0,
            cold_ratio=1.0,
            peak_mib=1024,
            passes=2,
            threads=(1, 0),
        ),
        Series(
            name="kv-every-key",
            histories=lambda: [
                *_from_files([path for path in maps if "c50" in path.name], "porcupine-kv", "kv"),
                *_histories.key_values(),
            ],
            limit_s=60.0,
            every_key=True,
            peak_mib=1024,
            most_ms=60_000,
            passes=1,
            threads=(0,),
        ),
        Series(
            name="queue",
            histories=_histories.queues,
            cold_ms=3_000,
            undecided=0,
            peak_mib=1024,
            passes=2,
        ),
        Series(name="crashed", histories=_histories.many_crashed, most_ms=50, undecided=0, passes=2),
        Series(
            name="small", histories=_histories.small, cold_ms=5_000, undecided=0, memory_mib=512, peak_mib=512, passes=2
        ),
    ]  # fmt: skip
    if knossos:
        files = sorted(knossos.rglob("*.edn"))
        found.insert(
            1,
            Series(
                name="knossos-cas",
                histories=lambda: _from_files(files, "knossos", "cas-register"),
                warm_ratio=1.0,
                cold_ms=100,
                undecided=0,
            ),
        )
    return found


def _from_files(paths: Sequence[Path], format: str, model: str) -> list[History]:
    return [history for path in paths for history in read(path, format=format, model=model)]


# The two checkers


def _rival() -> Path:
    """Build Porcupine's program, if that was not done before."""
    if shutil.which("go") is None:
        sys.exit("this benchmark builds Porcupine: install Go (https://go.dev/dl, or golang-go) and run it again")
    program = CACHE / "porcupine"
    CACHE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "build", "-o", program, "."], cwd=RIVAL, check=True)
    return program


def _rival_data() -> Path:
    _rival()
    listing = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}}", MODULE], cwd=RIVAL, check=True, capture_output=True, text=True
    )
    return Path(listing.stdout.strip()) / "test_data"


def _ours(one: Series, batch: Path, threads: int, passes: int) -> tuple[list[list[Any]], float]:
    java = find_java()
    archive = archive_path(java)
    class_path = os.pathsep.join([find_jar_path(), str(JAR)])
    command = [str(java), *JVM_OPTIONS, f"-Xmx{one.memory_mib + one.memory_mib // 4 + 128}m"]
    command += [f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else []
    command += ["-cp", class_path, "stormproof.Main", "--time-limit", str(one.limit_s)]
    command += ["--memory", str(one.memory_mib), "--threads", str(threads or os.cpu_count()), "--repeat", str(passes)]
    command += ["--every-key"] if one.every_key else []
    began = time.perf_counter()
    lines = _lines(subprocess.run([*command, str(batch)], check=True, capture_output=True, text=True).stdout)
    whole_ms = (time.perf_counter() - began) * 1e3
    count = len(lines) // passes
    return [lines[number * count : (number + 1) * count] for number in range(passes)], whole_ms


def _theirs(one: Series, batch: Path, threads: int, passes: int) -> tuple[list[list[Any]], float]:
    """Porcupine has no cold pass: it is compiled. A history that takes too much memory ends its program, which is
    started again behind it."""
    found: list[Any] = []
    began = time.perf_counter()
    while True:
        command = [str(CACHE / "porcupine"), "-time-limit", f"{one.limit_s}s", "-memory", str(one.rival_mib)]
        command += ["-every-key"] if one.every_key else []
        environment = {**os.environ, **({"GOMAXPROCS": str(threads)} if threads else {})}
        command += ["-from", str(len(found)), str(batch)]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment)
        found += _lines(ended.stdout)
        if ended.returncode not in (0, OUT_OF_MEMORY):
            sys.exit(f"porcupine ended with {ended.returncode}: {ended.stderr.strip()}")
        if ended.returncode == 0:
            return [found], (time.perf_counter() - began) * 1e3


def _lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


# Measuring


def measure(one: Series, rounds: int) -> tuple[list[Figure], list[str]]:
    """Return the figures of one series, and every history about which the two checkers contradict one another."""
    figures: list[Figure] = []
    contradictions: list[str] = []
    with tempfile.TemporaryDirectory(prefix="stormproof-bench-") as folder:
        batch = Path(folder) / "batch"
        batch.write_bytes(pack(list(one.histories())))
        for threads in one.threads:
            ours, theirs = Measured(), Measured()
            for _ in range(rounds):
                ours.add(*_ours(one, batch, threads, one.passes))
                theirs.add(*_theirs(one, batch, threads, 1))
                if one.passes > 1:
                    ours.add(*_ours(one, batch, threads, 1))
            figures += _figures(one, "" if threads == 1 else "-all-threads", ours, theirs)
            contradictions += [
                f"{one.name}: {name}: ours {ours.verdicts[name]}, Porcupine {theirs.verdicts[name]}"
                for name in ours.verdicts
                if "unknown" not in (ours.verdicts[name], theirs.verdicts[name])
                and ours.verdicts[name] != theirs.verdicts[name]
            ]
    return figures, contradictions


def _figures(one: Series, suffix: str, ours: Measured, theirs: Measured) -> list[Figure]:
    name = one.name + suffix
    rival_ms = theirs.cold_ms

    def ratio(what: str, value: float, aim: float | None) -> Figure:
        return Figure(name=f"{name}.{what}", value=round(value / rival_ms, 3), unit="x", aim=aim)

    found = [
        Figure(name=f"{name}.histories", value=len(ours.verdicts), unit=""),
        Figure(name=f"{name}.porcupine", value=round(rival_ms, 1), unit="ms"),
        Figure(name=f"{name}.porcupine_undecided", value=theirs.undecided, unit=""),
        Figure(name=f"{name}.porcupine_peak", value=round(theirs.peak_mib), unit="MiB"),
        Figure(name=f"{name}.cold", value=round(ours.cold_ms, 1), unit="ms", aim=one.cold_ms),
        ratio("cold_ratio", ours.cold_ms, one.cold_ratio),
    ]
    if one.passes > 1:
        found += [
            Figure(name=f"{name}.warm", value=round(ours.warm_ms, 1), unit="ms"),
            ratio("warm_ratio", ours.warm_ms, one.warm_ratio),
        ]
    found += [
        Figure(name=f"{name}.whole", value=round(ours.whole_ms, 1), unit="ms"),
        ratio("whole_ratio", ours.whole_ms, one.whole_ratio),
        Figure(name=f"{name}.slowest", value=round(ours.slowest_ms, 2), unit="ms", aim=one.most_ms),
        Figure(name=f"{name}.undecided", value=ours.undecided, unit="", aim=one.undecided),
        Figure(name=f"{name}.peak", value=round(ours.peak_mib, 1), unit="MiB", aim=one.peak_mib),
    ]
    return found


def main() -> None:
    arguments = parser("linearizable", __doc__)
    arguments.add_argument("--series", action="append", default=[], help="only these (default: all)")
    arguments.add_argument("--rounds", type=int, default=3, help="the best of so many counts (default: 3)")
    arguments.add_argument("--knossos", type=Path, help="a folder with Knossos's cas-register files")
    arguments.add_argument("--limit", type=float, help="seconds for each history, instead of each series' own limit")
    given = arguments.parse_args()
    figures: list[Figure] = []
    contradictions: list[str] = []
    for one in series(given.knossos):
        if given.series and one.name not in given.series:
            continue
        print(f"measuring {one.name} ...", file=sys.stderr)
        found, wrong = measure(replace(one, limit_s=given.limit or one.limit_s), given.rounds)
        figures += found
        contradictions += wrong
    if not given.series or MANY_KEYS in given.series:
        print(f"measuring {MANY_KEYS} ...", file=sys.stderr)
        figures += _many_keys.measure(given.rounds)
    show("linearizable", figures, as_json=given.json)
    for contradiction in contradictions:
        print(f"CONTRADICTION {contradiction}", file=sys.stderr)
    sys.exit(1 if contradictions else 0)


if __name__ == "__main__":
    main()
