"""The runs of a folder, a line each: what was run, when, and what was found. Only ``run.json`` and ``verdict.json`` are
read, never a history."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import BadInput, ChaosError
from chaos.history import directory, manifest
from chaos.history.run_meta import RUNNING, UP, RunMeta
from chaos.verdict import RunVerdict, Validity
from reports import sweeps as of_sweeps


class Unjudged(StrEnum):
    """What stands in the place of a verdict."""

    RUNNING = "RUNNING"
    UP = "UP"  # a cluster that `stormproof up` left running
    CUT_SHORT = "CUT SHORT"  # its harness was killed
    FAILED = "FAILED"  # its harness gave up
    NOT_JUDGED = "NOT JUDGED"
    DAMAGED = "DAMAGED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One run. ``verdict`` is one of :class:`Validity`, or of :class:`Unjudged`; ``violated`` are the laws that were
    broken, ``anomalies`` violations by name; ``by_policy`` says what was lost although the profile permits it; ``why``
    says why there is no VALID or INVALID. ``started`` is ISO 8601, as recorded; ``duration_s`` is how long the load was
    to last. What isn't known is "", -1 or empty."""

    directory: Path
    verdict: str
    experiment: str = ""
    deployment: str = ""
    mutant: str = ""
    seed: int = -1
    started: str = ""
    duration_s: float = -1.0
    violated: tuple[str, ...] = ()
    anomalies: Mapping[str, int] = field(default_factory=dict)
    by_policy: str = ""
    why: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return readable(self.directory.name)

    @property
    def date(self) -> str:
        """When it started, to the minute."""
        return self.started[:16].replace("T", " ")

    @property
    def found(self) -> str:
        """The violated laws, or else the first reason why that is unknown; and what was lost by policy."""
        return "; ".join(filter(None, (", ".join(self.violated) or next(iter(self.why), ""), self.by_policy)))


def readable(name: str) -> str:
    """Return a file's name as text that can be written anywhere, also where its bytes are not UTF-8."""
    return os.fsencode(name).decode("utf-8", "replace")


def overview(parent: Path) -> list[RunLine]:
    """Return the runs in this folder, the one that was started first at the beginning; one that can't be read is
    DAMAGED. Raises :class:`BadInput` if it is not a folder."""
    if not parent.is_dir():
        raise BadInput(f"{parent} is not a folder")
    found = {path.parent for name in (directory.META, manifest.FILE) for path in parent.glob(f"*/{name}")}
    return sorted(map(line, found), key=_began)


def sweeps(parent: Path) -> list[str]:
    """Return the folders of sweeps in this one that have a page, by name."""
    return sorted(path.parent.name for path in parent.glob(f"*/{of_sweeps.PLAN}") if _has_page(path.parent))


def turned(lines: Sequence[RunLine]) -> list[tuple[RunLine, RunLine]]:
    """Return, of each experiment whose last judged run was INVALID although earlier ones were VALID, the last of those
    and the first INVALID one after it; the experiment that turned last comes first. A planted bug or another deployment
    is another experiment."""
    judged: dict[tuple[str, str, str], list[RunLine]] = {}
    for one in lines:
        if one.verdict in (Validity.VALID, Validity.INVALID):
            judged.setdefault((one.experiment, one.deployment, one.mutant), []).append(one)
    found = []
    for runs in judged.values():
        since = next((at for at, one in enumerate(reversed(runs)) if one.verdict == Validity.VALID), 0)
        if since:
            found.append((runs[-since - 1], runs[-since]))
    return sorted(found, key=lambda pair: _began(pair[1]), reverse=True)


def _has_page(sweep: Path) -> bool:
    return (sweep / of_sweeps.PAGE).is_file() and not sweep.is_symlink()


def _began(one: RunLine) -> tuple[str, int, str]:
    """Return when a run started, also one that was copied since. One that doesn't say has the time of its file."""
    try:
        changed_ns = (one.directory / directory.META).lstat().st_mtime_ns
    except OSError:
        changed_ns = 0
    started = one.started or datetime.fromtimestamp(changed_ns / 1e9, UTC).isoformat()
    return started, changed_ns, one.name


def line(run: Path) -> RunLine:
    """Return the line of one run, whatever has become of it."""
    try:
        meta = directory.read_meta(run)
    except (ChaosError, OSError) as error:
        return RunLine(directory=run, verdict=Unjudged.DAMAGED, why=(readable(str(error)),))
    what: dict[str, Any] = {
        "directory": run,
        "experiment": meta.name,
        "deployment": meta.deployment,
        "mutant": meta.mutant,
        "seed": meta.seed,
        "started": meta.started,
        "duration_s": -1.0 if meta.duration_s is None else float(meta.duration_s),
    }
    if not guarded.is_there(run / directory.VERDICT):
        return RunLine(**what, **_unjudged(meta))
    try:
        return RunLine(**what, **_judged(directory.read_verdict(run)))
    except (ChaosError, OSError) as error:
        return RunLine(**what, verdict=Unjudged.DAMAGED, why=(readable(str(error)),))


def _judged(verdict: RunVerdict) -> dict[str, Any]:
    return {
        "verdict": verdict.validity,
        "violated": tuple(law.law for law in verdict.laws if law.validity is Validity.INVALID),
        "anomalies": verdict.anomaly_counts(),
        "by_policy": readable("; ".join(verdict.qualifiers)),
        "why": tuple(verdict.why),
    }


def _unjudged(meta: RunMeta) -> dict[str, Any]:
    if meta.state == UP:
        return {"verdict": Unjudged.UP}
    if meta.state == RUNNING:
        return {"verdict": Unjudged.RUNNING if directory.goes_on(meta) else Unjudged.CUT_SHORT}
    if meta.state == "failed":
        return {"verdict": Unjudged.FAILED, "why": (meta.error or "no reason is recorded",)}
    return {"verdict": Unjudged.NOT_JUDGED}
