"""Of a run that another one was made smaller to: what both are, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import ChaosError
from chaos.history.directory import EXPERIMENT

#: What `stormproof shrink` leaves beside the small run (docs/explain.md).
SUMMARY = "minimal.json"
#: What is compared, in this order, with the unit.
SIZES = {"operations": "", "messages": "", "faults": "", "nodes": "", "seconds": "s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """``run`` is the name of the larger run. ``sizes``: (what, before, after). ``experiments``: the text of both, the
    larger one's empty where its directory is gone. ``kept``: the failure that both show."""

    run: str
    sizes: Sequence[tuple[str, str, str]]
    experiments: tuple[str, str]
    kept: str
    free: Sequence[str]


def shrunk(run: Path) -> Shrunk | None:
    """Return what stands beside a run about its shrinking; None beside any other run, and where that can't be read."""
    try:
        summary = guarded.read_json(run.parent / SUMMARY)
        if not isinstance(summary, dict) or Path(str(summary.get("recorded"))).name != run.name:
            return None
        before = guarded.below(run.parent.parent, Path(str(summary["run"])).name)
        return Shrunk(
            run=before.name,
            sizes=[*_sizes(summary), *_rate(summary)],
            experiments=(_text(before / EXPERIMENT), _text(run / EXPERIMENT)),
            kept=_kept(summary["signature"]),
            free=[str(one) for one in summary.get("any", ())],
        )
    except (OSError, ChaosError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None


def _sizes(summary: Mapping[str, Any]) -> Sequence[tuple[str, str, str]]:
    def words(side: str, name: str) -> str:
        return f"{summary[side][name]:,g} {SIZES[name]}".strip()

    try:
        return [(name, words("before", name), words("after", name)) for name in SIZES]
    except ValueError as error:
        raise TypeError(str(error)) from error


def _rate(summary: Mapping[str, Any]) -> Sequence[tuple[str, str, str]]:
    """Return in how many runs it failed, where none comes again as it was."""
    if "rate" not in summary:
        return []
    rate = summary["rate"]
    before, after = (f"{int(one[0])} of {int(one[1])}" for one in (rate["before"], rate["after"]))
    return [("runs that failed so", before, after)]


def _kept(signature: Mapping[str, Any]) -> str:
    return f"{', '.join(map(str, signature['anomalies']))} ({signature['law']}); cause: {signature['cause']}"


def _text(file: Path) -> str:
    try:
        return guarded.read(file).decode("utf-8", "replace")
    except (OSError, ChaosError):
        return ""
