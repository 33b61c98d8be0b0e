"""What all benchmarks share: figures with their aims, the machine that they were measured on, and how to print both."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured value. ``aim`` is what it should not exceed, or not fall below when ``more_is_better``; None when it
    is shown for its own sake."""

    name: str
    value: float
    unit: str
    aim: float | None = None
    more_is_better: bool = False

    @property
    def reached(self) -> bool | None:
        if self.aim is None:
            return None
        return self.value >= self.aim if self.more_is_better else self.value <= self.aim


def parser(name: str, description: str | None) -> argparse.ArgumentParser:
    """Make the command line that every benchmark has."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=description)
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


def show(name: str, figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print the figures, their aims and the machine."""
    if as_json:
        rows = [{**asdict(figure), "reached": figure.reached} for figure in figures]
        print(json.dumps({"benchmark": name, "machine": machine(), "figures": rows}))
        return
    print(f"{name} ({', '.join(f'{what} {value}' for what, value in machine().items())})")
    for figure in figures:
        print(f"  {figure.name:<42}{figure.value:>12g} {figure.unit:<6}{_aim(figure)}".rstrip())


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest of the values that ``percent`` of them don't exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def machine() -> dict[str, object]:
    """Return what a figure depends on, and nothing that names the machine. ``load`` is the last minute's, the
    benchmark's own share included: above the number of cores, something else has slowed the benchmark down."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "GiB": _memory_gib(),
        "Linux" if platform.system() == "Linux" else "system": platform.machine(),
        "Python": f"{platform.python_version()} ({platform.python_compiler()}, built {platform.python_build()[1]})",
        "Java": _java(),
        "load": round(os.getloadavg()[0], 1),
    }


def _aim(figure: Figure) -> str:
    if figure.aim is None:
        return ""
    bound = "at least" if figure.more_is_better else "at most"
    return f"aim: {bound} {figure.aim:g}{'' if figure.reached else '   MISSED'}"


def _memory_gib() -> int:
    found = re.search(r"MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text("ascii"))
    return round(int(found[1]) / 2**20) if found else 0


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        return "none"
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "([^"]+)"', printed)
    return found[1] if found else "unknown"
