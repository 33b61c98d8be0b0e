"""Of a run that another one was made smaller to: what both are, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import ChaosError
from chaos.history.directory import EXPERIMENT

#: What `stormproof shrink` leaves beside the small run (docs/shrink.md).
TOLD = "minimal.json"
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
    """What stands beside a run about its shrinking; None beside any other run, and where that can't be read."""
    try:
        told = guarded.read_json(run.parent / TOLD)
        if not isinstance(told, dict) or Path(str(told.get("recorded"))).name != run.name:
            return None
        before = guarded.below(run.parent.parent, Path(str(told["run"])).name)
        return Shrunk(
            run=before.name,
            sizes=[*_sizes(told), *_rate(told)],
            experiments=(_text(before / EXPERIMENT), _text(run / EXPERIMENT)),
            kept=_kept(told["signature"]),
            free=[str(one) for one in told.get("any", ())],
        )
    except (OSError, ChaosError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None


def _sizes(told: Mapping[str, Any]) -> Sequence[tuple[str, str, str]]:
    def words(side: str, name: str) -> str:
        return f"{told[side][name]:,g} {SIZES[name]}".strip()

    try:
        return [(name, words("before", name), words("after", name)) for name in SIZES]
    except ValueError as error:
        raise TypeError(str(error)) from error


def _rate(told: Mapping[str, Any]) -> Sequence[tuple[str, str, str]]:
    """In how many runs it failed, where none comes again as it was."""
    if "rate" not in told:
        return []
    before, after = (f"{int(rate[0])} of {int(rate[1])}" for rate in (told["rate"]["before"], told["rate"]["after"]))
    return [("runs that failed so", before, after)]


def _kept(signature: Mapping[str, Any]) -> str:
    return f"{', '.join(map(str, signature['anomalies']))} ({signature['law']}); cause: {signature['cause']}"


def _text(file: Path) -> str:
    try:
        return guarded.read(file).decode("utf-8", "replace")
    except (OSError, ChaosError):
        return ""
