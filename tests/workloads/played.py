"""A short run of a workload in the simulator, in memory, and what all promises say of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from chaos.driver import Driver, evidence_of
from chaos.history.columns import INTEGERS, VALUE, WORDS
from chaos.history.run_meta import RunMeta
from chaos.judging.engine import judge_rows
from chaos.judging.plan import WHOLE
from chaos.law import RunContext
from chaos.testing._bench import Play, play
from chaos.verdict import Validity, Verdict
from chaos.workload import Workload, uses_of
from tests.checkers.histories import ends_of


@dataclass(frozen=True, slots=True)
class Played:
    """A run that has ended: its rows as they were recorded, and its verdicts by the names of promises."""

    play: Play
    context: RunContext
    verdicts: Mapping[str, Verdict]

    def rows(self, f: str, type: str = "") -> list[dict[str, Any]]:
        """Return the rows of the workload's operations of this name, or those of this type."""
        return [row for row in self.play.of("op", f=f) if type in ("", row["type"]) and row["process"][:6] != "probe."]

    @property
    def violations(self) -> dict[str, list[str]]:
        """The violations that are not allowed, by promise."""
        found = {
            name: sorted({one.name for one in verdict.anomalies if not one.lawful})
            for name, verdict in self.verdicts.items()
        }
        return {name: names for name, names in found.items() if names}

    def validity(self, promise: str) -> Validity:
        return self.verdicts[promise].validity


def table_of(played: Play) -> pa.Table:
    """Return the rows of a run as laws are given them."""
    empty = dict.fromkeys(INTEGERS, -1) | dict.fromkeys(WORDS, "")
    return ends_of([{**empty, **row, VALUE: json.dumps(row[VALUE]) if row.get(VALUE) else ""} for row in played.rows])


def judged(
    driver: Driver, workload: Workload, *, seconds: float = 10.0, seed: int = 1, faults: Sequence[Any] = ()
) -> Played:
    """Play a workload against a system in the simulator, and judge it by all promises."""
    played = play(driver, workload=lambda sim: workload, duration_s=seconds, seed=seed, faults=faults)
    meta = {
        "seed": seed,
        "deployment": "sim",
        "brokers": [],
        "bounds": {},
        "tells": sorted({"operations", *evidence_of(driver)}),
        "uses": sorted(uses_of(workload)),
    }
    context = RunContext(run="played", seed=seed, meta=RunMeta.of(meta))
    verdicts = judge_rows([(WHOLE, table_of(played))], context)
    return Played(played, context, {verdict.law: verdict for verdict in verdicts})
