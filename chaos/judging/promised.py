"""What ``run.json`` may mean: what was promised, to whom, on what evidence. A word that nobody knows is damage, never a
weaker promise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from chaos.driver import Evidence, Profile
from chaos.errors import DamagedHistory
from chaos.history.directory import RUNNING, UP, read_meta
from chaos.workload import Use

#: In which state a run may be; ``up`` is a cluster for use by hand.
STATES = (RUNNING, "finished", "failed", UP)
#: Who may say what the system promises.
PROFILE_FROM = ("driver", "experiment")
#: How long the system may take, in seconds.
BOUNDS = ("available_s", "recover_s", "drain_s", "route_s", "collect_s", "upload_s")
#: No bound is longer than a year.
LONGEST_S = 366 * 24 * 3600.0
MOST_SEED = 2**63 - 1

Told = Mapping[str, Any]


def read(run: Path) -> dict[str, Any]:
    """The ``run.json`` of a run, for whoever makes something of it. Raises as
    :func:`chaos.history.directory.read_meta`, and as :func:`check`."""
    told = read_meta(run)
    check(told)
    return told


def check(told: Told) -> None:
    """Look at a ``run.json`` whose fields have the right types. Raises :class:`DamagedHistory` with all that is
    wrong."""
    if problems := [f"run.json: {name}: {problem}" for name, problem in _problems(told)]:
        raise DamagedHistory("; ".join(problems))


def _problems(told: Told) -> Iterator[tuple[str, str]]:
    for name, problem_of in _CHECKS.items():
        if name in told and (problem := problem_of(told[name])):
            yield name, problem


def _profile(profile: Told) -> str:
    fields = {field.name: field for field in dataclasses.fields(Profile)}
    known = {name: value for name, value in profile.items() if name in fields}
    if unknown := sorted(profile.keys() - fields.keys() - {"strict"}):
        return f"nobody knows {unknown[0]!r:.50}"
    if not isinstance(profile.get("unclean", False), bool) or not isinstance(profile.get("strict", True), bool):
        return "unclean and strict are true or false"
    if not _whole(profile.get("min_in_sync", 2), fields["min_in_sync"].metadata["within"]):
        return f"min_in_sync is {profile['min_in_sync']!r:.50}"
    acks = profile.get("acks", "all")
    if not isinstance(acks, str | int) or isinstance(acks, bool) or (str(acks).isdigit() and len(str(acks)) > 1):
        return f"acks is {acks!r:.50}"
    try:
        Profile(**known)
    except (ValueError, TypeError) as error:
        return str(error)[:200]
    return ""


def _profile_from(told: Told) -> str:
    by = told.get("by")
    if by not in PROFILE_FROM or told.keys() - {"by", "line"}:
        return f"nobody knows {by!r:.50}" if by not in PROFILE_FROM else "expected who said it, and a line"
    whole = _whole(told.get("line", 1), range(1, 2**31))
    return "" if whole else f"line is {told['line']!r:.50}"


def _bounds(bounds: Told) -> str:
    for name, seconds in bounds.items():
        if name not in BOUNDS:
            return f"nobody knows {name!r:.50}"
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_S:
            return f"{name} is {seconds!r:.50}"
    return ""


def _duration(seconds: object) -> str:
    fits = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
    return "" if fits and 0 <= seconds <= LONGEST_S else f"{seconds!r:.50} is no length of time"  # type: ignore[operator]


def _queues(queues: list[Any]) -> str:
    for number, queue in enumerate(queues):
        if not isinstance(queue, dict) or not _whole(queue.get("index"), range(number, number + 1)):
            return f"entry {number} is no queue of this index"
        if not isinstance(queue.get("topic", ""), str) or not isinstance(queue.get("group", ""), str):
            return f"entry {number}: topic and group are texts"
        if not _whole(queue.get("queue_id", 0), range(2**31)):
            return f"entry {number}: queue_id is {queue['queue_id']!r:.50}"
    return ""


def _nodes(nodes: list[Any]) -> str:
    names = [node.get("name") for node in nodes if isinstance(node, dict) and isinstance(node.get("role"), str)]
    if len(names) < len(nodes) or not all(isinstance(name, str) and name for name in names):
        return "each entry has the texts name and role"
    return "" if len(set(names)) == len(names) else "two nodes have one name"


def _texts(texts: list[Any]) -> str:
    return "" if all(isinstance(text, str) for text in texts) else "expected a list of texts"


def _words_of(known: Iterator[Any] | tuple[str, ...]) -> Callable[[list[Any]], str]:
    words = {str(word) for word in known}

    def problem_of(texts: list[Any]) -> str:
        unknown = [text for text in texts if not isinstance(text, str) or text not in words]
        return f"nobody knows {unknown[0]!r:.50}" if unknown else ""

    return problem_of


def _texts_by_name(value: Mapping[str, object]) -> str:
    whole = all(isinstance(texts, list) and not _texts(texts) for texts in value.values())
    return "" if whole else "expected lists of texts by name"


def _range(allowed: range) -> Callable[[object], str]:
    return lambda value: "" if _whole(value, allowed) else f"{value!r:.50} is out of range"


def _whole(value: object, allowed: range) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in allowed


_CHECKS: Mapping[str, Callable[[Any], str]] = {
    "seed": _range(range(MOST_SEED + 1)),
    "rows": _range(range(2**63)),
    "pid": _range(range(1, 2**31)),
    "state": lambda state: "" if state in STATES else f"nobody knows {state!r:.50}",
    "profile": _profile,
    "profile_from": _profile_from,
    "bounds": _bounds,
    "duration_s": _duration,
    "jitter_s": _duration,
    "loss_window_s": _duration,
    "readers_see": lambda word: "" if word == "confirmed" else f"nobody knows {word!r:.50}",
    "queues": _queues,
    "nodes": _nodes,
    "tells": _words_of(tuple(Evidence)),
    "decided_by": _texts_by_name,
    "uses": _words_of(tuple(Use)),
    **dict.fromkeys(("brokers", "controllers", "workloads", "laws", "reach"), _texts),
    **dict.fromkeys(("faults", "drawn_faults", "skipped_faults"), _texts),
}
