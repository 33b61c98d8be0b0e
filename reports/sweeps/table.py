"""All that is reported of a sweep, made of its rows alone: in whatever order they came, however often it was
resumed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.sweeps.causes import SharedCause, Signature, causes
from reports.sweeps.observed import Moment
from reports.sweeps.row import Row, reached
from reports.sweeps.saturation import Saturation, saturation

#: What a sweep's JSON says of a failed run as `run --json` does.
OF_THE_RUN = ("title", "story", "chain", "again", "also", "diagnosis", "replay_command")
#: So many of the slowest seeds are listed.
SLOWEST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """How often a fault hit a role, by :class:`Moment`, in all runs together."""

    fault: str
    role: str
    moments: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """``files``: the experiments by name; ``asked``: how many runs there were to be; ``rows``: those that there are,
    by file and seed. ``verdicts``: by file, how many of each. ``reached``: the goals of each file, and how many of its
    runs came to them."""

    files: Sequence[str]
    mutant: str
    asked: int
    rows: Sequence[Row]
    verdicts: Sequence[Mapping[str, int]]
    reached: Sequence[Mapping[str, int]]
    causes: Sequence[SharedCause]
    covered: Sequence[Covered]
    saturation: Sequence[Saturation]
    slowest: Sequence[Row]

    @property
    def digest(self) -> str:
        """Of all that must not depend on when, where and how fast the rows were made."""
        fixed = [
            {**dataclasses.asdict(row), "run": "", "told": dict(row.anomalies), "simulated_s": 0, "judged_s": 0}
            for row in self.rows
        ]
        return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()


def by_fault(covered: Sequence[Covered]) -> dict[str, Counter[str]]:
    """Return how often each fault hit anything, by :class:`Moment`."""
    found: dict[str, Counter[str]] = {}
    for one in covered:
        found.setdefault(one.fault, Counter()).update(one.moments)
    return found


def heat(count: int, most: int) -> float:
    """Return how much a count is beside the highest, 0 to 1, on a scale on which ten times as much is a step."""
    return math.log1p(count) / math.log1p(most) if most else 0.0


def tabulate(rows: Sequence[Row], files: Sequence[str], mutant: str, asked: int) -> Table:
    """Make the table."""
    ordered = sorted(rows, key=lambda row: row.key)
    by_file = [[row for row in ordered if row.file == number] for number in range(len(files))]
    return Table(
        files=files,
        mutant=mutant,
        asked=asked,
        rows=ordered,
        verdicts=[dict(sorted(Counter(row.verdict for row in some).items())) for some in by_file],
        reached=[reached(some) for some in by_file],
        causes=causes(ordered),
        covered=_covered(ordered),
        saturation=saturation(ordered),
        slowest=sorted(ordered, key=lambda row: (-row.seconds, row.key))[:SLOWEST],
    )


def _covered(rows: Sequence[Row]) -> list[Covered]:
    whole: Counter[str] = Counter()
    for row in rows:
        whole.update(row.seen.hits)
    found: dict[tuple[str, str], dict[str, int]] = {}
    for name, count in sorted(whole.items()):
        fault, role, moment = name.split("|")
        found.setdefault((fault, role), dict.fromkeys(map(str, Moment), 0))[moment] = count
    return [Covered(fault=fault, role=role, moments=moments) for (fault, role), moments in found.items()]


def words(signature: Signature) -> str:
    """Return a signature as people read it."""
    law, anomalies, origin = signature
    return f"{', '.join(anomalies)} ({law}); cause: {origin}" if anomalies else f"{law}: {origin}"


def as_object(table: Table) -> dict[str, Any]:
    """Return the table as ``--json`` prints it."""
    return {
        "files": list(table.files),
        "mutant": table.mutant,
        "asked": table.asked,
        "done": len(table.rows),
        "digest": table.digest,
        "verdicts": [dict(one) for one in table.verdicts],
        "reached": [dict(one) for one in table.reached],
        "clusters": [_cause(one) for one in table.causes],
        "coverage": [dataclasses.asdict(one) for one in table.covered],
        "saturation": [
            {
                "file": one.file,
                "seeds": one.seeds,
                "states": one.states,
                "new": list(one.new),
                "estimate": one.single.value,
                "bound": one.bound,
            }
            for one in table.saturation
        ],
        "slowest": [{"file": row.file, "seed": row.seed, "seconds": round(row.seconds, 3)} for row in table.slowest],
        "runs": [
            {
                "file": row.file,
                "seed": row.seed,
                "verdict": row.verdict,
                "digest": row.digest,
                "run": row.run,
                "anomalies": dict(row.anomalies),
                "why": list(row.why),
                **{name: row.told[name] for name in OF_THE_RUN if name in row.told},
            }
            for row in table.rows
        ],
    }


def causes_in_words(table: Table) -> str:
    """Return in how many of the runs how many causes showed, as a sentence begins; "" where no run failed."""
    failed = {key for one in table.causes for key in one.runs}
    number = len(table.causes)
    return f"{number} cause{'' if number == 1 else 's'} in {len(failed)} of {len(table.rows)} runs" if failed else ""


def _cause(cause: SharedCause) -> dict[str, Any]:
    first = cause.first
    return {
        "title": cause.title,
        "story": first.story if first else "",
        "chain": list(first.chain) if first else [],
        "decided_by": first.decided_by if first else "",
        "signatures": [
            {"law": law, "anomalies": list(anomalies), "cause": origin} for law, anomalies, origin in cause.signatures
        ],
        "runs": [{"file": file, "seed": seed} for file, seed in cause.runs],
        "without_fault": cause.faultless,
        "example": dict(zip(("file", "seed"), cause.example, strict=True)),
        "of": cause.overall.tries,
        "preceded_by": [
            {
                "event": one.event,
                "always": one.always,
                "p_event_given_failure": one.event_given_failure.value,
                "p_failure_given_event": one.failure_given_event.value,
                "failures": one.event_given_failure.hits,
                "runs_with_event": one.failure_given_event.tries,
                "bounds": [one.failure_given_event.low, one.failure_given_event.high],
                "passing": None if one.passing is None else dict(zip(("file", "seed"), one.passing, strict=True)),
            }
            for one in cause.candidates
        ],
    }
