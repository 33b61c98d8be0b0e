"""What a run is: what was tested, what was promised, to whom, on what evidence. ``run.json`` says it, from the run's
beginning on. An unknown word is damage, never a weaker promise."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from chaos.draws import MOST_SEED
from chaos.driver import SELDOM_REPORTED, Evidence, Profile
from chaos.errors import DamagedHistory
from chaos.ops import QueueRef
from chaos.waiver import Waiver, problem_of
from chaos.workload import Use

#: The state of a run whose harness has not come to its end; and of one that is a cluster for use by hand.
RUNNING, UP = "running", "up"
#: In which state a run may be.
STATES = (RUNNING, "finished", "failed", UP)
#: Who may say what the system promises.
PROFILE_FROM = ("driver", "experiment")
#: How long the system may take, in seconds.
BOUNDS = ("available_s", "recover_s", "drain_s", "route_s", "collect_s", "upload_s")
#: What a run says whose driver declares that offsets have gaps.
GAPS = "gaps"
#: No bound is longer than a year.
LONGEST_S = 366 * 24 * 3600.0
#: Where all rows of a run are of one clock.
SIMULATED = "sim"

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunNode:
    """A node that the run began with, and what it is: ``broker``, ``controller``, ``objectstore`` and so on."""

    name: str
    role: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run went, as far as its harness knows. ``recovered_s``: how long the system took to recover, -1 if it did
    not in time, None where nothing is known of it."""

    interrupted: bool = False
    recovered_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMeta:
    """The ``run.json`` of a run. What it does not say has the value that stands here.

    * ``run`` is the name of the run's directory, ``directory`` where that was made, ``name`` the experiment's name,
      ``mutant`` the planted bug, ``replay`` the command that does it again.
    * ``state`` is one of :data:`STATES`; of a run that goes on ``pid`` is its harness, of one that failed ``error``
      says why. ``ended`` is there once it is finished; ``rows`` is how many its harness recorded.
    * ``profile`` is what the system promises (None: nobody says), ``profile_by`` who says so, in which
      ``profile_line`` of the experiment (0: in none).
    * ``evidence`` is what the driver reports (None: nobody says), ``uses`` what the workloads use.
    * ``loss_window_s``: how long before a crash the system may have acknowledged what it then loses, as its driver
      declares. ``readers_see_confirmed``: readers are given nothing that may still be rolled back. ``declares_gaps``:
      offsets of a queue need not follow one another.
    * ``faults`` are those that the experiment asks for, ``drawn_faults`` those of them that its seed drew from a swarm,
      ``skipped_faults`` those that its deployment can't do.
    * ``brokers`` is None where nobody lists them. ``decided_by``: which methods of the system's code decide a step.
    * ``bounds`` are in seconds by name, ``versions`` and ``machine`` say on what it ran, ``drawn`` what the seed drew.
    * ``min_acked``: how many messages must be acknowledged in a run that may be VALID. ``waivers``: which violations it
      puts up with.
    * ``imported``: of which history of another tool the run was made; empty for one of ours. Nothing can do it again.
    * ``other_results``: of an imported run, what the checkers of the tool that recorded it say, by the tool's name.
    * ``trimmed``: only the verdict was kept.
    * ``json`` is all of the file, with what later versions may add.
    """

    json: Json = field(default_factory=dict, repr=False)
    run: str = ""
    directory: str = ""
    name: str = ""
    seed: int = -1
    deployment: str = ""
    mutant: str = ""
    system: str = ""
    state: str = ""
    error: str = ""
    pid: int = 0
    started: str = ""
    replay: str = ""
    profile: Profile | None = None
    profile_by: str = ""
    profile_line: int = 0
    no_loss_by_policy: bool = False
    queues: tuple[QueueRef, ...] = ()
    nodes: tuple[RunNode, ...] = ()
    brokers: tuple[str, ...] | None = None
    controllers: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()
    evidence: frozenset[str] | None = None
    loss_window_s: float | None = None
    readers_see_confirmed: bool = False
    declares_gaps: bool = False
    decided_by: Mapping[str, Sequence[str]] = field(default_factory=dict)
    faults: tuple[str, ...] = ()
    drawn_faults: tuple[str, ...] = ()
    skipped_faults: tuple[str, ...] = ()
    drawn: Json = field(default_factory=dict)
    duration_s: float | None = None
    jitter_s: float = 0.0
    bounds: Mapping[str, float] = field(default_factory=dict)
    laws: tuple[str, ...] = ()
    reach: tuple[str, ...] = ()
    min_acked: int = 0
    waivers: tuple[Waiver, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Json = field(default_factory=dict)
    rows: int | None = None
    ended: Ended | None = None
    trimmed: bool = False
    addresses: Json = field(default_factory=dict)
    imported: Json = field(default_factory=dict)
    other_results: Json = field(default_factory=dict)

    @classmethod
    def of(cls, json: Json) -> Self:
        """Take what a ``run.json`` says. Raises :class:`DamagedHistory` with all that is wrong in it."""
        if problems := [f"run.json: {name}: {problem}" for name, problem in _problems(json)]:
            raise DamagedHistory("; ".join(problems))
        known = {name: json[name] for name in _AS_IT_STANDS if name in json}
        known |= {name: tuple(json[name]) for name in _LISTS if json.get(name) is not None}
        known |= {name: frozenset(json[key]) for name, key in _SETS.items() if json.get(key) is not None}
        source, summary = json.get("profile_from") or {}, json.get("summary")
        return cls(
            json=json,
            profile=_profile_of(json["profile"]) if json.get("profile") else None,
            profile_by=source.get("by", ""),
            profile_line=source.get("line", 0),
            queues=tuple(_queue_of(queue) for queue in json.get("queues") or ()),
            nodes=tuple(RunNode(node["name"], node["role"]) for node in json.get("nodes") or ()),
            readers_see_confirmed=json.get("readers_see") == "confirmed",
            waivers=tuple(Waiver(**one) for one in json.get("waive") or ()),
            declares_gaps=json.get("offsets") == GAPS,
            ended=None if summary is None else _ended_of(summary),
            **known,
        )

    @property
    def promises(self) -> Profile:
        """What the system was configured to promise; the default profile where nobody says."""
        return self.profile or Profile()

    @property
    def has_gaps(self) -> bool:
        """Whether offsets may stand for nothing that readers are given: the driver declares it, or workloads use
        transactions, whose marks and aborted messages have offsets."""
        return self.declares_gaps or Use.TRANSACTIONS in self.uses

    @property
    def has_transactions(self) -> bool:
        """Whether readers are given nothing that stands behind a transaction until it ends: workloads use transactions,
        or those of a client library, and these leave gaps."""
        return Use.TRANSACTIONS in self.uses or (self.declares_gaps and Use.DELIVERIES in self.uses)

    @property
    def one_clock(self) -> bool:
        """Whether ``index`` orders rows of different nodes: simulated ones trace into one history as it happens."""
        return self.deployment == SIMULATED

    @property
    def reported(self) -> frozenset[str]:
        """The evidence that the driver declared. A run that doesn't say counts as having declared everything that was
        known when runs began to say it, so that what is missing makes it UNKNOWN."""
        if self.evidence is None:
            return frozenset(Evidence) - SELDOM_REPORTED
        return self.evidence | {Evidence.TIER_CONTENT} if Evidence.TIER in self.evidence else self.evidence

    @property
    def replay_command(self) -> str:
        """The command that does the run again, for people to copy: "" where ``replay`` is something else than we write,
        for the run may be a stranger's."""
        try:
            words = shlex.split(self.replay)
        except ValueError:
            return ""
        ours = words[:1] == ["stormproof"] and words[1:2] in (["run"], ["replay"])
        return self.replay if ours and shlex.join(words) == self.replay else ""

    def named(self, role: str) -> tuple[str, ...]:
        """Return the nodes of this role that the run began with."""
        return tuple(node.name for node in self.nodes if node.role == role)


#: Fields that are taken as they stand.
_AS_IT_STANDS = (
    *(
        "run",
        "directory",
        "name",
        "seed",
        "deployment",
        "mutant",
        "system",
        "state",
        "error",
        "pid",
        "started",
        "replay",
    ),
    *("no_loss_by_policy", "loss_window_s", "decided_by", "drawn", "duration_s", "jitter_s", "bounds", "versions"),
    *("machine", "rows", "trimmed", "addresses", "min_acked", "imported", "other_results"),
)
_LISTS = ("brokers", "controllers", "workloads", "faults", "drawn_faults", "skipped_faults", "laws", "reach")
_SETS = {"uses": "uses", "evidence": "tells"}
_PROFILED = frozenset(field.name for field in dataclasses.fields(Profile))


def _profile_of(profile: Json) -> Profile:
    return Profile(**{name: value for name, value in profile.items() if name in _PROFILED})


def _queue_of(queue: Json) -> QueueRef:
    texts = {name: queue.get(name, "") for name in ("topic", "group")}
    return QueueRef(index=queue["index"], queue_id=queue.get("queue_id", 0), **texts)


def _ended_of(summary: Json) -> Ended:
    recovered = summary.get("recovered_s")
    is_known = isinstance(recovered, int | float) and not isinstance(recovered, bool)
    return Ended(bool(summary.get("interrupted")), float(recovered) if is_known else None)  # type: ignore[arg-type]


# What is wrong with a field: of another type, or without meaning


def _problems(json: Json) -> Iterator[tuple[str, str]]:
    for name, value in json.items():
        if (wanted := _TYPES.get(name)) is not None and not _is(value, wanted):
            yield name, f"must be a JSON {_JSON_NAMES[wanted]}, not {value!r:.200}"
        elif name in _CHECKS and (problem := _CHECKS[name](value)):
            yield name, problem


def _is(value: object, wanted: type) -> bool:
    if wanted is list:
        return isinstance(value, list | tuple)
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def _profile(profile: Json) -> str:
    if unknown := sorted(profile.keys() - _PROFILED - {"strict"}):
        return f"unknown {unknown[0]!r:.50}"
    if not isinstance(profile.get("unclean", False), bool) or not isinstance(profile.get("strict", True), bool):
        return "unclean and strict are true or false"
    (fewest,) = (one for one in dataclasses.fields(Profile) if one.name == "min_in_sync")
    if not _whole(profile.get("min_in_sync", 2), fewest.metadata["within"]):
        return f"min_in_sync is {profile['min_in_sync']!r:.50}"
    acks = profile.get("acks", "all")
    if not isinstance(acks, str | int) or isinstance(acks, bool) or (str(acks).isdigit() and len(str(acks)) > 1):
        return f"acks is {acks!r:.50}"
    try:
        _profile_of(profile)
    except (ValueError, TypeError) as error:
        return str(error)[:200]
    return ""


def _profile_from(source: Json) -> str:
    by = source.get("by")
    if by not in PROFILE_FROM or source.keys() - {"by", "line"}:
        return f"unknown {by!r:.50}" if by not in PROFILE_FROM else "expected who said it, and a line"
    whole = _whole(source.get("line", 1), range(1, 2**31))
    return "" if whole else f"line is {source['line']!r:.50}"


def _bounds(bounds: Json) -> str:
    for name, seconds in bounds.items():
        if name not in BOUNDS:
            return f"unknown {name!r:.50}"
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_S:
            return f"{name} is {seconds!r:.50}"
    return ""


def _duration(seconds: object) -> str:
    fits = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
    return "" if fits and 0 <= seconds <= LONGEST_S else f"{seconds!r:.50} is no length of time"  # type: ignore[operator]


def _queues(queues: Sequence[Any]) -> str:
    for number, queue in enumerate(queues):
        if not isinstance(queue, dict) or not _whole(queue.get("index"), range(number, number + 1)):
            return f"entry {number} is no queue of this index"
        if not isinstance(queue.get("topic", ""), str) or not isinstance(queue.get("group", ""), str):
            return f"entry {number}: topic and group are texts"
        if not _whole(queue.get("queue_id", 0), range(2**31)):
            return f"entry {number}: queue_id is {queue['queue_id']!r:.50}"
    return ""


def _nodes(nodes: Sequence[Any]) -> str:
    names = [node.get("name") for node in nodes if isinstance(node, dict) and isinstance(node.get("role"), str)]
    if len(names) < len(nodes) or not all(isinstance(name, str) and name for name in names):
        return "each entry has the texts name and role"
    return "" if len(set(names)) == len(names) else "two nodes have one name"


def _texts(texts: Sequence[Any]) -> str:
    return "" if all(isinstance(text, str) for text in texts) else "expected a list of texts"


def _words_of(known: Iterable[str]) -> Callable[[Sequence[Any]], str]:
    words = {str(word) for word in known}

    def problem_of(texts: Sequence[Any]) -> str:
        unknown = [text for text in texts if not isinstance(text, str) or text not in words]
        return f"unknown {unknown[0]!r:.50}" if unknown else ""

    return problem_of


def _text_by_name(value: Json) -> str:
    return "" if all(isinstance(text, str) for text in value.values()) else "expected texts by name"


def _texts_by_name(value: Json) -> str:
    whole = all(isinstance(texts, list) and not _texts(texts) for texts in value.values())
    return "" if whole else "expected lists of texts by name"


def _range(allowed: range) -> Callable[[object], str]:
    return lambda value: "" if _whole(value, allowed) else f"{value!r:.50} is out of range"


def _whole(value: object, allowed: range) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in allowed


_JSON_NAMES = {int: "whole number", str: "string", list: "array", dict: "object", bool: "true or false"}
_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("seed", "rows", "pid", "min_acked"), int),
    **dict.fromkeys(
        ("queues", "nodes", "workloads", "uses", "faults", "drawn_faults", "skipped_faults", "tells"), list
    ),
    **dict.fromkeys(("brokers", "controllers", "laws", "reach", "waive"), list),
    **dict.fromkeys(("profile", "bounds", "summary", "addresses", "versions", "machine", "drawn", "decided_by"), dict),
    **dict.fromkeys(("imported", "other_results"), dict),
    "profile_from": dict,
    **dict.fromkeys(("name", "run", "directory", "system", "state", "replay", "deployment", "mutant", "error"), str),
    **dict.fromkeys(("readers_see", "offsets", "started"), str),
    **dict.fromkeys(("trimmed", "no_loss_by_policy"), bool),
}
_CHECKS: Mapping[str, Callable[[Any], str]] = {
    "seed": _range(range(MOST_SEED + 1)),
    "rows": _range(range(2**63)),
    "min_acked": _range(range(2**63)),
    "pid": _range(range(1, 2**31)),
    "state": lambda state: "" if state in STATES else f"unknown {state!r:.50}",
    "profile": _profile,
    "profile_from": _profile_from,
    "bounds": _bounds,
    "duration_s": _duration,
    "jitter_s": _duration,
    "loss_window_s": _duration,
    "readers_see": lambda word: "" if word == "confirmed" else f"unknown {word!r:.50}",
    "offsets": lambda word: "" if word == GAPS else f"unknown {word!r:.50}",
    "queues": _queues,
    "waive": problem_of,
    "nodes": _nodes,
    "tells": _words_of(Evidence),
    "decided_by": _texts_by_name,
    "versions": _text_by_name,
    "uses": _words_of(Use),
    **dict.fromkeys(("brokers", "controllers", "workloads", "laws", "reach"), _texts),
    **dict.fromkeys(("faults", "drawn_faults", "skipped_faults"), _texts),
}
