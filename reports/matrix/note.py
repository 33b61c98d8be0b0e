"""What is noted of a judged run of a matrix: one line of JSON, as soon as it was judged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import BadInput, ChaosError, MachineError
from chaos.experiment.model import Experiment
from chaos.history.directory import read_meta, read_verdict
from chaos.history.history import History
from chaos.verdict import Validity
from reports.in_words import story
from reports.matrix.outages import Outage, longest_s, outages

#: What of an experiment doesn't change what is run.
NO_MATTER = ("name", "violates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One judged run. ``digest``: of the experiment that was run. ``laws``: its verdict by each; ``anomalies``: how
    many of each that is a violation; ``without_s``: the longest time without service, and ``outages`` that after each
    fault; ``recovered_s``: from the end of the load until the system was whole, -1 if it never was; both None where
    unknown. ``by_policy``: how many findings the profile permits, which ``line`` says in words with the verdict.
    ``system``: what was run, with its version where the driver reports one; ``seconds``: how long it took with its
    judgement, None where unknown; ``cause``: what is to blame for its violations, first of all. ``run``: the name of
    its directory."""

    row: str
    column: str
    on: str
    digest: str
    seed: int
    started: str
    verdict: str
    laws: Mapping[str, str]
    anomalies: Mapping[str, int]
    acked: int
    without_s: float | None = None
    outages: tuple[Outage, ...] = ()
    recovered_s: float | None = None
    by_policy: int = 0
    line: str = ""
    system: str = ""
    seconds: float | None = None
    cause: str = ""
    run: str = ""
    why: tuple[str, ...] = field(default=())

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.row, self.column, self.seed, self.started


def digest_of(document: Any) -> str:
    """Return the digest of an experiment as values, whatever it is called and however it is written."""
    kept = {key: value for key, value in document.items() if key not in NO_MATTER}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16]


def note_of(
    run: Path, *, row: str, column: str, digest: str, experiment: Experiment | None, seconds: float | None = None
) -> Note:
    """Note a run that was judged. Raises :class:`ChaosError` where it wasn't, or can't be read."""
    verdict, meta = read_verdict(run), read_meta(run)
    counts = {law.law: law.counts for law in verdict.laws}
    measured = _measured(run, experiment)
    return Note(
        row=row,
        column=column,
        on=meta.deployment,
        digest=digest,
        seed=verdict.seed,
        started=meta.started,
        verdict=str(verdict.validity),
        laws={law.law: str(law.validity) for law in verdict.laws},
        anomalies=verdict.anomaly_counts(),
        acked=counts.get("durability", {}).get("acked", 0),
        recovered_s=meta.ended.recovered_s if meta.ended else None,
        by_policy=sum(one.count for one in verdict.permitted),
        line=verdict.line,
        system=" ".join(filter(None, (meta.system, meta.versions.get(meta.system)))),
        seconds=None if seconds is None else round(seconds, 1),
        cause=_cause(run) if verdict.validity is Validity.INVALID else "",
        run=run.name,
        why=tuple(verdict.why),
        **measured,
    )


def _cause(run: Path) -> str:
    try:
        return story(run)
    except (ChaosError, OSError, ValueError):
        return ""


def _measured(run: Path, experiment: Experiment | None) -> dict[str, Any]:
    """Return how long clients were without service; nothing where the history can't be read."""
    try:
        history = History.open(run)
        return {"without_s": longest_s(history), "outages": tuple(outages(history, experiment))}
    except (ChaosError, OSError, ValueError):
        return {}


def read(path: Path) -> list[Note]:
    """Return the notes of a file, in their order; none where there is no file. Raises :class:`BadInput` for a line that
    is not a note."""
    try:
        lines = guarded.read(path).decode("utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {error}") from error
    return [_note(path, number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _note(path: Path, number: int, line: str) -> Note:
    try:
        value = json.loads(line)
        known = {one.name for one in fields(Note)}
        value = {name: item for name, item in value.items() if name in known}
        lists = {"outages": tuple(Outage(**one) for one in value.get("outages", ()))}
        return Note(**{**value, **lists, "why": tuple(value.get("why", ()))})
    except (ValueError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}:{number}: this is not a note of a run: {error}") from error


def append(path: Path, notes: Iterable[Note]) -> None:
    """Add notes to a file, and have them on the disk before this returns. Raises :class:`MachineError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(asdict(note), ensure_ascii=False) + "\n" for note in notes)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise MachineError(f"cannot write {path}: {error.strerror or error}") from error
