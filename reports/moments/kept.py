"""Curves are kept in the run that they are about, so that its report shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chaos import guarded
from chaos.errors import ChaosError
from chaos.history.directory import write_json
from chaos.verdict import Anomaly
from reports.moments.as_text import as_object
from reports.moments.curve import Curve, Moment
from reports.sweeps.chances import Share

#: In a run directory: the curves by the numbers of their violations, as ``stormproof explain --json`` prints them.
FILE = "moments.json"


def keep(curve: Curve) -> None:
    """Write a curve into its run, in the place of an earlier one of the same violation. Raises
    :class:`chaos.errors.MachineError`."""
    write_json(curve.run / FILE, {**_read(curve.run), str(curve.number): as_object(curve)}, sealed=False)


def kept(run: Path, violations: Sequence[Anomaly]) -> Mapping[int, Curve]:
    """Return, by the number of the violation, those curves of a run that are about one of these. What can't be read, or
    was measured for another verdict, is left out."""
    found = {}
    for number, anomaly in enumerate(violations, 1):
        curve = _curve(run, _read(run).get(str(number)))
        mine = (anomaly.law, anomaly.name, anomaly.explanation)
        if curve is not None and (curve.law, curve.name, curve.text) == mine:
            found[number] = curve
    return found


def _read(run: Path) -> dict[str, Any]:
    try:
        curves = guarded.read_json(run / FILE)
    except (OSError, ChaosError):
        return {}
    return curves if isinstance(curves, dict) else {}


def _curve(run: Path, value: Any) -> Curve | None:
    try:
        return Curve(
            run=run, law=str(value["law"]), name=str(value["anomaly"]), number=int(value["number"]),
            text=str(value["explanation"]), about=str(value["about"]),
            moments=[_moment(one) for one in value["moments"]],
            happened=[str(one) for one in value["happened"]], notes=[str(one) for one in value["notes"]],
            faults=[(str(name), float(start_s), float(end_s)) for name, start_s, end_s in value["faults"]],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None


def _moment(value: Mapping[str, Any]) -> Moment:
    same, alike = (Share(hits=int(value[one]["hits"]), tries=int(value[one]["tries"])) for one in ("same", "alike"))
    return Moment(row=int(value["row"]), at_s=float(value["at_s"]), event=str(value["text"]), same=same, alike=alike)
