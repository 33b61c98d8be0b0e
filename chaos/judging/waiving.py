"""What an experiment waives of what its laws found, within the bounds that it gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from chaos.history.history import History
from chaos.history.run_meta import RunMeta
from chaos.verdict import Anomaly, Validity, Verdict, Waived
from chaos.waiver import Waiver


def waive(run: Path, meta: RunMeta, laws: Sequence[Verdict]) -> tuple[Sequence[Verdict], Sequence[Waived]]:
    """Return the verdicts with what is waived, and what that is. A kind with more violations than its waiver permits
    stays as it is, all of it; a waiver for a phase leaves those that were made in others, and those that are only
    counted, since it isn't known when they were made. A law whose violations are all waived is what it would be without
    them."""
    found: list[Waived] = []
    for waiver in meta.waivers:
        mine = [one for law in laws for one in law.anomalies if one.name == waiver.anomaly and not one.lawful]
        within = set(_within(run, waiver, mine))
        if within:
            laws = [_waived(law, waiver, within) for law in laws]
        numbers = [sum(one.count for one in mine if (one in within) is is_within) for is_within in (True, False)]
        if mine:
            waived, beyond = numbers
            words = {"anomaly": waiver.anomaly, "reason": waiver.reason, "bound": waiver.bound}
            found.append(Waived(**words, count=waived, beyond=beyond))
    return laws, found


def _within(run: Path, waiver: Waiver, anomalies: Sequence[Anomaly]) -> Sequence[Anomaly]:
    if not waiver.phase:
        return anomalies if sum(one.count for one in anomalies) <= waiver.most else ()
    placed = [one for one in anomalies if one.rows]
    phases = _phases(run, {one.rows[-1] for one in placed}) if placed else {}
    return [one for one in placed if phases.get(one.rows[-1]) == waiver.phase]


def _phases(run: Path, numbers: set[int]) -> Mapping[int, str]:
    """Return in which phase these rows were recorded, by their numbers. What a node traced by a clock of its own has
    none."""
    wanted = pa.array(sorted(numbers), pa.int64())

    def keep(rows: pa.Table) -> pa.Array:
        is_phase = pc.and_(pc.equal(rows["kind"], "harness"), pc.equal(rows["f"], "phase"))
        return pc.or_(is_phase, pc.is_in(rows["index"], wanted))

    history = History.open(run).only(keep)
    begins = list(history.phases.items())
    found = {}
    for row in history.numbered(numbers):
        if row.kind != "trace" or history.one_clock:
            found[row.index] = next((name for name, began_ns in reversed(begins) if began_ns <= row.time_ns), "")
    return found


def _waived(law: Verdict, waiver: Waiver, within: set[Anomaly]) -> Verdict:
    if not within.intersection(law.anomalies):
        return law
    anomalies = tuple(
        replace(one, lawful=True, waived=waiver.reason) if one in within else one for one in law.anomalies
    )
    validity = law.validity
    if validity is Validity.INVALID and all(one.lawful for one in anomalies):
        validity = Validity.UNKNOWN if law.why else Validity.VALID
    return replace(law, anomalies=anomalies, validity=validity)
