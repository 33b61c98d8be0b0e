"""One row of a sweep: what one seed came to, and what is needed of it to be compared with the others."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import DamagedHistory
from chaos.verdict import Validity

#: The verdict of a seed that the harness could not bring to one.
ERROR = "ERROR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One way in which a run failed, as :mod:`stormproof.shrinking.signature` finds it. ``at_s``: when, in seconds
    since the load began; ``faults``: how many faults had had an effect before that. ``decided_by``: what decided it, as
    the report's card of that cause says, "" where no row shows that; ``title``, ``story`` and ``chain``: the title of
    the card, the cause in a sentence, and its steps as ``--json`` prints them."""

    law: str
    anomalies: tuple[str, ...]
    origin: str
    at_s: float
    faults: int
    decided_by: str = ""
    title: str = ""
    story: str = ""
    chain: tuple[Mapping[str, Any], ...] = ()

    @property
    def signature(self) -> tuple[str, tuple[str, ...], str]:
        return self.law, self.anomalies, self.origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a run went through. ``events``: when each first happened, in seconds since the load began; ``hits``: how
    often a fault hit a role in a state of the cluster ("FAULT|ROLE|STATE"); ``states``: the abstract states of the
    cluster that it was in, sorted (:mod:`reports.sweeps.observed`)."""

    events: Mapping[str, float] = field(default_factory=dict)
    hits: Mapping[str, int] = field(default_factory=dict)
    states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """``file``: the place of the experiment in the sweep. ``verdict``: one of :class:`Validity`, or :data:`ERROR`.
    ``run``: the run's directory, as a path from the sweep's if it is in there; "" if nothing of it was kept. ``told``:
    what ``--json`` prints of the run. ``code``: how a command ends that made this run alone. ``seconds``: what
    simulating, and judging, took."""

    file: int
    seed: int
    verdict: str
    code: int
    run: str = ""
    digest: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    seen: Seen = field(default_factory=Seen)
    simulated_s: float = 0.0
    judged_s: float = 0.0

    @property
    def key(self) -> tuple[int, int]:
        return self.file, self.seed

    @property
    def failed(self) -> bool:
        return self.verdict != Validity.VALID

    @property
    def seconds(self) -> float:
        return self.simulated_s + self.judged_s

    @property
    def anomalies(self) -> Mapping[str, int]:
        return dict(self.told.get("anomalies", {}))

    @property
    def by_policy(self) -> int:
        """How much was found in this run that its profile permits."""
        return sum(int(one["count"]) for one in self.told.get("by_policy", ()))

    @property
    def why(self) -> tuple[str, ...]:
        return tuple(map(str, self.told.get("why", ())))

    @property
    def reached(self) -> Mapping[str, int]:
        return dict(self.told.get("reached", {}))


def reached(rows: Iterable[Row]) -> dict[str, int]:
    """Return each goal of these runs, in the order of their experiments, with the number of runs that came to it."""
    found: dict[str, int] = {}
    for row in rows:
        for goal, times in row.reached.items():
            found[goal] = found.get(goal, 0) + bool(times)
    return found


def write(path: Path, row: Row) -> None:
    """Write a row in one step. Raises ``OSError``."""
    guarded.replace(path, json.dumps(dataclasses.asdict(row), ensure_ascii=False, separators=(",", ":")).encode())


def read(path: Path) -> Row:
    """Read a row. Raises :class:`chaos.errors.ChaosError` for what is not a row, ``OSError`` for what can't be read."""
    value = guarded.read_json(path)
    try:
        failures = tuple(
            Failure(**{**one, "anomalies": tuple(one["anomalies"]), "chain": tuple(one["chain"])})
            for one in value["failures"]
        )
        seen = Seen(**{**value["seen"], "states": tuple(value["seen"]["states"])})
        row = Row(**{**value, "failures": failures, "seen": seen})
        if not (isinstance(row.file, int) and isinstance(row.seed, int) and isinstance(row.told, dict)):
            raise TypeError("a field has another type")
    except (TypeError, KeyError, ValueError) as error:
        raise DamagedHistory(
            f"{path} holds no row of a sweep: {error}; delete it, and its seed is run again"
        ) from error
    return row
