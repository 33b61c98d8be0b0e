"""A run of the correct system as rows that tests can harm, write back as a run, and have judged."""

from __future__ import annotations

import copy
import functools
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaos.history.columns import INTEGERS, WORDS
from chaos.history.directory import SHARDS, read_meta, runs, seal, write_meta
from chaos.history.ends import without_beginnings
from chaos.history.history import History
from chaos.judging.run import ExaminedRun, examine_run
from tests.checkers.histories import repeating
from tests.manifests import whole

Row = dict[str, Any]
EXPERIMENT = """\
name: recorded
system:
  reference: {queues: 2, tier_segment_bytes: 4096, segment_bytes: 8192, retain_bytes: 16384}
duration: 7s
workloads:
  - queue: {producers: 3, consumers: 2, rate_per_s: 40}
  - tier_read: {readers: 1, rate_per_s: 5}
  - topics: {rate_per_s: 2}
faults:
  - kill: {target: master}
    at: 2500ms
    for: 500ms
  - switch: {}
    at: 5s
"""
BROKERS = ("broker-0", "broker-1", "broker-2")
_json = json.JSONEncoder(separators=(",", ":")).encode


@dataclass
class Recording:
    """``rows`` in the order of ``index``; the value of each is parsed, as ``row["v"]``."""

    rows: list[Row]
    meta: dict[str, Any]

    def copy(self) -> Recording:
        return Recording([{**row, "v": copy.deepcopy(row["v"])} for row in self.rows], copy.deepcopy(self.meta))

    def find(self, kind: str, f: str, type: str = "", **columns: Any) -> list[Row]:
        wanted = {**({"type": type} if type else {}), **columns}
        found = [row for row in self.rows if row["kind"] == kind and row["f"] == f]
        return [row for row in found if all(row[name] == value for name, value in wanted.items())]

    def drop(self, gone: Callable[[Row], bool]) -> None:
        self.rows = [row for row in self.rows if not gone(row)]

    def insert(self, after: Row, **changes: Any) -> Row:
        """Add a copy of a row, changed, right behind it: nobody refers to the copy."""
        new = {**after, "v": copy.deepcopy(after["v"]), "index": -1, **changes}
        self.rows.insert(self.rows.index(after) + 1, new)
        return new

    def phase(self, name: str) -> int:
        return next(row["index"] for row in self.find("harness", "phase") if row["v"]["phase"] == name)

    def acked(self) -> list[Row]:
        """Completions of acknowledged sends of the workload."""
        return [row for row in self.find("op", "send", "ok") if not row["process"].startswith("probe")]

    def drained(self, message: int) -> Callable[[Row], bool]:
        """Whether a row is the message in the final reading of its queue."""
        begin = self.phase("drain")
        return lambda row: row["message"] == message and row["f"] == "delivered" and row["op"] >= begin

    def table(self) -> pa.Table:
        """The rows as laws are given them, numbered from 0 without a gap."""
        return without_beginnings(self.recorded())[0]

    def recorded(self) -> pa.Table:
        """All rows, numbered from 0 without a gap."""
        place = {row["index"]: number for number, row in enumerate(self.rows) if row["index"] >= 0}
        numbered = [
            {
                **row,
                "index": number,
                "op": place.get(row["op"], -1),
                "value": _json(row["v"]) if row["v"] else "",
            }
            for number, row in enumerate(self.rows)
        ]
        return repeating(numbered)

    def write(self, directory: Path) -> ExaminedRun:
        """Make it a run directory, as if somebody had recorded it so."""
        (directory / SHARDS).mkdir(parents=True)
        pq.write_table(self.table(), directory / SHARDS / "all-0.parquet")
        write_meta(directory, {**self.meta, "rows": len(self.rows)})
        seal(directory)
        return examine_run(directory)


def record(directory: Path, seed: int = 3, experiment: str = EXPERIMENT, *, changes: bool = False) -> Recording:
    """Run an experiment in the simulator, in a process of its own. ``changes``: leave traces of manifests as they were
    recorded; each has its whole content otherwise, so that a harm to one row harms no other."""
    (directory / "recorded.yaml").write_text(experiment)
    words = ["run", "recorded.yaml", "--on", "sim", "--seed", str(seed), "--engine", "local", "--out", "runs"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "stormproof", *words],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = runs(directory / "runs")[0]
    table, damage = History.open(run).recorded()
    assert not damage
    rows = table.to_pylist()
    for row in rows:
        row["v"] = json.loads(row.pop("value") or "{}")
    if not changes:
        whole(rows, "v")
    assert set(rows[0]) == {*INTEGERS, *WORDS, "v"}
    return Recording(rows, read_meta(run).json)


@functools.cache
def recording(seed: int = 3) -> Recording:
    """Recorded once for all tests of a process: copy it before you change it."""
    with TemporaryDirectory() as directory:
        return record(Path(directory), seed)
