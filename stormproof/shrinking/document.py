"""An experiment as plain data that can be taken apart, with everything pinned that a seed would otherwise draw.

Every fault stands there for each time that it fires, at the moment at which it fires, and says which of the seed's
draws are its own (``draws``). So the document replays the history of the experiment that it was made of; and when
something is left out, the rest draws what it drew before.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Mapping
from enum import Enum
from random import Random
from typing import Any

from ruamel.yaml import YAML

from chaos.driver import Profile
from chaos.experiment.durations import parse_duration
from chaos.experiment.model import Bounds, Experiment, FaultSpec, Simulation, Trigger
from chaos.experiment.options import PluginUse
from chaos.experiment.schedule import moments
from chaos.plugins import fields
from stormproof.launch import SIM

#: What a file says: texts, numbers, true, false, null, lists and mappings. Nobody changes one; edits make new ones.
Document = Mapping[str, Any]
#: Beside what the file says, a document may name the seed to be run with, where that isn't the failing run's.
SEED = "seed"

#: Lines of a file are no longer than this where they can be broken.
WIDTH = 110


def pinned(experiment: Experiment, seed: int, *, singly: bool = True, deployment: str = SIM) -> Document:
    """Return the document of what this seed makes of an experiment on a deployment. ``singly``: with an entry for each
    time that a fault fires; otherwise with one for each fault, and its schedule."""
    experiment = experiment.drawn(seed)
    specs = experiment.faults_on(deployment, seed)
    length_s = experiment.duration_s - experiment.quiet_s
    if singly:
        faults = [entry for number, spec in enumerate(specs) for entry in _firings(spec, number, length_s, seed)]
    else:
        faults = [_whole(spec, str(number)) for number, spec in enumerate(specs)]
    found = {
        "name": experiment.name,
        "profile": _differing(experiment.profile, Profile()) if experiment.promises.said else None,
        "system": _use(experiment.system),
        "duration": duration(experiment.duration_s),
        "quiet": duration(experiment.quiet_s) if experiment.quiet_s else None,
        "bounds": _differing(experiment.bounds, Bounds()),
        "simulation": _differing(experiment.simulation, Simulation()),
        "workloads": [_use(use) for use in experiment.workloads],
        "faults": faults,
    }
    said = ("system", "workloads", *(("profile",) if experiment.promises.said else ()))  # else the driver's own holds
    return {key: value for key, value in found.items() if value or key in said}


def text(document: Document) -> str:
    """Return the document as YAML."""
    yaml, out = YAML(), io.StringIO()
    yaml.default_flow_style = None  # lines for what holds something else, braces for what doesn't
    yaml.width = WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.dump({key: value for key, value in document.items() if key != SEED}, out)
    return out.getvalue()


def duration(seconds: float) -> str:
    """Return a length of time as files have it; it reads as exactly this one."""
    for written in (f"{seconds * 1000:g}ms", f"{seconds:g}s", f"{seconds!r}s"):
        if ("ms" not in written or seconds < 1) and "e" not in written and parse_duration(written) == seconds:
            return written
    return f"{seconds:.12f}s"


def seconds(written: str) -> float:
    """Read what :func:`duration` wrote."""
    found = parse_duration(written)
    assert found is not None, written
    return found


def _use(use: PluginUse) -> dict[str, Any]:
    default = {field.name: _default(field) for field in fields(type(use.options))}
    given = {name: getattr(use.options, name) for name in default}
    return {use.name: {name: plain(value) for name, value in given.items() if value != default[name]}}


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default


def _differing(value: Any, default: Any) -> dict[str, Any]:
    given = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {name: plain(one) for name, one in given.items() if one != getattr(default, name)}


def plain(value: Any) -> Any:
    """Return a value of an option as a file has it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def _firings(spec: FaultSpec, number: int, length_s: float, seed: int) -> Iterator[dict[str, Any]]:
    """Yield one entry for each time that a fault fires; only one where the run alone shows how often it does."""
    turns: list[dict[str, Any]]
    if spec.schedule.after is not None or (spec.schedule.when is not None and spec.schedule.when.gap_s):
        yield _whole(spec, str(number))
        return
    if (when := spec.schedule.when) is not None:
        turns = [{"when": _trigger(dataclasses.replace(when, skip=when.skip + n, times=1))} for n in range(when.times)]
    else:
        rng = Random(f"{seed}/schedule/{number}")
        turns = [{"at": duration(moment)} for moment in moments(spec.schedule, length_s, rng)]
    steps = list(spec.steps())
    for turn, when_ in enumerate(turns):
        draws = f"{number}/{turn}"
        if spec.in_turn:
            step = steps[turn % len(steps)]
            yield {**_use(step.use), **when_, **_lasting(step), "draws": draws}
        elif len(steps) == 1:
            yield {**_use(spec.use), **when_, **_lasting(spec), "draws": draws}
        else:
            yield {
                "sequence": [_step(step, f"{draws}/{at}" if at else draws) for at, step in enumerate(steps)],
                **when_,
            }


def _whole(spec: FaultSpec, draws: str) -> dict[str, Any]:
    """Return one entry for a fault with its schedule."""
    schedule = spec.schedule
    if schedule.when is not None:
        when: dict[str, Any] = {"when": _trigger(schedule.when)}
    elif schedule.after is not None:
        delay = {"delay": duration(schedule.after.delay_s)} if schedule.after.delay_s else {}
        when = {"after": {"fault": schedule.after.fault, **delay}}
    elif schedule.at_s:
        when = {"at": [duration(moment) for moment in schedule.at_s]}
    else:
        when = {"every": duration(schedule.every_s)} if schedule.every_s else {}
        when |= {"random": {"mean": duration(schedule.mean_s)}} if schedule.mean_s else {}
    steps = list(spec.steps())
    if len(steps) == 1:
        return {**_use(spec.use), **when, **_lasting(spec), "draws": draws}
    return {"each" if spec.in_turn else "sequence": [_step(step, draws) for step in steps], **when}


def _trigger(trigger: Trigger) -> dict[str, Any]:
    given = _differing(trigger, Trigger(event=""))
    for key in ("gap", "delay"):
        if seconds := given.pop(f"{key}_s", 0.0):
            given[key] = duration(seconds)
    return given


def _step(step: FaultSpec, draws: str) -> dict[str, Any]:
    rest = {"rest": duration(step.rest_s)} if step.rest_s else {}
    after = {} if step.after_s is None else {"after": duration(step.after_s)}
    return {**_use(step.use), **_lasting(step), **rest, **after, "draws": draws}


def _lasting(spec: FaultSpec) -> dict[str, Any]:
    return {"for": duration(spec.for_s)} if spec.for_s else {}
