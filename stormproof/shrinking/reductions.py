"""What is made smaller, step by step: each function goes from a document to a smaller one that still fails. ``seen`` is
what the best run so far has shown.

Options of plug-ins are changed by their types and ranges alone; no plug-in is known here by its name.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from chaos import plugins
from chaos.experiment.model import WHEN
from chaos.experiment.options import WITHIN
from chaos.experiment.targets import CLIENT, Target, is_target
from chaos.plugins import PluginKind
from stormproof.shrinking.delta import fewest, least, lower, significant
from stormproof.shrinking.document import SEED, Document, duration, plain, seconds
from stormproof.shrinking.trial import Trial

#: Tries documents, and returns the place of the first one that still fails.
Attempt = Callable[[Sequence[Document]], int | None]

#: The load goes on for so long after its last fault, at least, and no fault comes sooner.
LEAST_GAP_S = 0.01
#: Times are no multiples of anything smaller.
LEAST_STEP_S = 0.01
#: Options that are no whole numbers are no multiples of anything smaller.
LEAST_STEP = 0.001
#: Nobody asks for fewer operations in a second.
LEAST_RATE = 1.0
#: Seeds whose luck is tried, and the time that is worth it.
OTHER_SEEDS = range(1, 13)
LONG_S = 0.5
#: Keys of an entry of ``faults`` that don't name its fault.
SEVERAL = ("sequence", "each")
ENTRY_KEYS = (*WHEN, *SEVERAL, "for", "on", "draws", "rest")
#: What a step says of the one before or after it.
BETWEEN = ("rest", "after")
#: Targets that say more than a node's name does, and stand for one node.
ROLES = (Target.MASTER, Target.SLAVE, Target.CONTROLLER_LEADER, Target.TIER, CLIENT)

Path = tuple[str | int, ...]
#: Where the links stand whose latency is drawn.
DRAWN: Path = ("simulation", "drawn_links")


# --- edits: a document stays as it is, and its copy is another one ---


def get(document: Any, path: Path) -> Any:
    """Return what stands at this place; None where nothing does."""
    for part in path:
        if isinstance(document, Mapping):
            document = document.get(part)
        elif isinstance(document, Sequence) and isinstance(part, int) and part < len(document):
            document = document[part]
        else:
            return None
    return document


def put(document: Any, path: Path, value: Any) -> Any:
    """Return the document with this value at this place."""
    if not path:
        return value
    if isinstance(document, Mapping):
        return {**document, path[0]: put(document.get(path[0], {}), path[1:], value)}
    changed = list(document)
    changed[int(path[0])] = put(changed[int(path[0])], path[1:], value)
    return changed


def drop(document: Any, path: Path) -> Any:
    """Return the document without the key at this place."""
    parent = get(document, path[:-1])
    return put(document, path[:-1], {key: value for key, value in parent.items() if key != path[-1]})


def first_of(attempt: Attempt, candidates: Sequence[Document], document: Document) -> Document:
    place = attempt(candidates) if candidates else None
    return document if place is None else candidates[place]


# --- the passes ---


def fewer(document: Document, attempt: Attempt, seen: Trial, *, key: str, keep: int) -> Document:
    """Keep as few entries of a list as will do."""
    return _fewest(document, attempt, document.get(key, ()), partial(with_entries, key=key), keep)


def with_entries(document: Document, entries: Sequence[Any], *, key: str) -> Document:
    return put(document, (key,), list(entries)) if entries else drop(document, (key,))


def fewer_steps(document: Document, attempt: Attempt, seen: Trial) -> Document:
    """Try fewer steps in each sequence; of one step, the step itself."""
    for place, entry in enumerate(document.get("faults", ())):
        for kind in SEVERAL:
            if kind in entry:
                with_ = partial(_with_steps, place=place, entry=entry, kind=kind)
                document = _fewest(document, attempt, entry[kind], with_, 1)
    return document


def _with_steps(document: Document, steps: Sequence[Any], *, place: int, entry: Any, kind: str) -> Document:
    if len(steps) > 1:
        first = {key: value for key, value in steps[0].items() if key != "after"}
        return put(document, ("faults", place, kind), [first, *steps[1:]])
    alone = {key: value for key, value in steps[0].items() if key not in BETWEEN}
    return put(document, ("faults", place), {**alone, **{key: entry[key] for key in entry if key != kind}})


def _fewest(
    document: Document,
    attempt: Attempt,
    items: Sequence[Any],
    with_: Callable[[Document, Sequence[Any]], Document],
    keep: int,
) -> Document:
    left = fewest(items, lambda some: attempt([with_(document, few) for few in some]), keep=keep)
    return with_(document, left) if len(left) < len(items) else document


def _least(
    document: Document,
    attempt: Attempt,
    value: float,
    smaller: Callable[[float], Sequence[float]],
    with_: Callable[[Document, float], Document],
) -> Document:
    less = least(value, smaller, lambda some: attempt([with_(document, number) for number in some]))
    return with_(document, less) if less < value else document


def less_time(document: Document, attempt: Attempt, seen: Trial) -> Document:
    """Try less time before the first fault, between two of them, and after the last one: what follows moves along."""
    number = 0
    while number < len(gaps := _gaps(document)):  # there are fewer once two faults fire at the same moment
        floor_s = LEAST_GAP_S if number == len(gaps) - 1 else 0.0
        with_ = partial(_with_gap, number=number)
        document = _least(document, attempt, gaps[number], partial(_shorter, floor_s=floor_s), with_)
        number += 1
    return document


def _moments(document: Document) -> list[float]:
    """Return the moments at which faults fire, ascending, each once."""
    return sorted({seconds(entry["at"]) for entry in document.get("faults", ()) if fires_once(entry)})


def fires_once(entry: Mapping[str, Any]) -> bool:
    return isinstance(entry.get("at"), str)


def _gaps(document: Document) -> list[float]:
    """Return the time before each moment since the one before it, and from the last one to the end of the load."""
    marks = [0.0, *_moments(document), seconds(document["duration"])]
    return [round(end - begin, 9) for begin, end in itertools.pairwise(marks)]


def _with_gap(document: Document, gap_s: float, *, number: int) -> Document:
    """Change one of the gaps; all that follows it keeps its distance."""
    earlier_s = _gaps(document)[number] - gap_s
    moments = _moments(document)
    if number < len(moments):
        since_s = moments[number]
        faults = [
            put(entry, ("at",), duration(max(0.0, round(seconds(entry["at"]) - earlier_s, 9))))
            if fires_once(entry) and seconds(entry["at"]) >= since_s
            else entry
            for entry in document["faults"]
        ]
        document = put(document, ("faults",), faults)
    return put(document, ("duration",), duration(round(seconds(document["duration"]) - earlier_s, 9)))


def _shorter(value: float, *, floor_s: float) -> list[float]:
    return lower(value, floor_s, max(LEAST_STEP_S, significant(value)))


def shorter_faults(document: Document, attempt: Attempt, seen: Trial) -> Document:
    """Try faults, and rests between those of a sequence, that last less long."""
    for path in [path for at in _faults(document) for path in ((*at, "for"), (*at, "rest"))]:
        if (written := get(document, path)) is not None:
            floor_s = LEAST_STEP_S if path[-1] == "for" else 0.0
            with_ = partial(_with_duration, path=path)
            document = _least(document, attempt, seconds(written), partial(_shorter, floor_s=floor_s), with_)
    return document


def _with_duration(document: Document, value_s: float, *, path: Path) -> Document:
    return put(document, path, duration(value_s))


def fewer_targets(document: Document, attempt: Attempt, seen: Trial) -> Document:
    """Try one node, by its name, where several are hit or the seed draws which; a role says more and stays."""
    for path in _faults(document):
        name = _name(get(document, path))
        options = plugins.options_class(plugins.load(PluginKind.FAULT, name))
        target = next((field for field in plugins.fields(options) if field.name == "target"), None)
        word = get(document, (*path, name, "target")) or (target and target.default)
        nodes = seen.hit.get(name, ())
        if target is None or word in ROLES or not is_target(str(word), ()):  # a name already
            continue
        document = first_of(attempt, [put(document, (*path, name, "target"), node) for node in nodes], document)
    return document


def smaller_numbers(document: Document, attempt: Attempt, seen: Trial, *, sections: Sequence[str]) -> Document:
    """Lower options that are numbers: counts down to their least, rates and the strength of faults towards nothing."""
    for knob in [knob for section in sections for knob in knobs(document, section)]:
        document = _least(document, attempt, knob.value, knob.smaller, knob.set)
    return document


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """An option that is a number, how small and how great it may get (``top`` None: nobody says), in which steps."""

    path: Path
    value: float
    floor: float
    whole: bool
    every: float
    top: float | None = None

    def smaller(self, value: float) -> list[float]:
        above = value - self.floor
        return [self.floor + less for less in lower(above, 0, max(self.every, significant(above)))]

    def set(self, document: Document, value: float) -> Document:
        return put(document, self.path, round(value) if self.whole else round(value, 9))


def knobs(document: Document, section: str) -> Iterator[Knob]:
    """Yield the numbers of a section that may change, in the order of the document, also those that have their
    default."""
    for path, kind in _uses(document, section):
        for field in plugins.fields(plugins.options_class(plugins.load(kind, str(path[-1])))):
            written = get(document, (*path, field.name))
            value = field.default if written is None else written
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                continue
            at, within = (*path, field.name), field.metadata.get(WITHIN)
            whole = isinstance(value, int)
            if within is not None:
                yield Knob(path=at, value=value, floor=within[0], whole=True, every=within.step, top=within[-1])
            elif field.name.endswith("_per_s"):
                yield Knob(path=at, value=value, floor=LEAST_RATE, whole=False, every=LEAST_STEP)
            elif section == "faults":
                yield Knob(path=at, value=value, floor=0, whole=whole, every=1 if whole else LEAST_STEP)


def plainer(document: Document, attempt: Attempt, seen: Trial) -> Document:
    """Try options that are switched off, or as they are by default."""
    for section in ("system", "workloads", "faults"):
        for path, kind in _uses(document, section):
            for field in plugins.fields(plugins.options_class(plugins.load(kind, str(path[-1])))):
                document = first_of(attempt, list(_plainer(document, (*path, field.name), field)), document)
    if "quiet" in document:
        document = first_of(attempt, [drop(document, ("quiet",))], document)
    return document


def steadier(document: Document, attempt: Attempt, seen: Trial) -> Document:
    """Have what was sent first arrive first, on all links or on as many as will do, and nothing drawn for each message
    on the others."""
    if get(document, DRAWN) == []:
        return document
    even = put(document, DRAWN[:1], {DRAWN[1]: []})
    if (left := first_of(attempt, [even], document)) is even:
        return even
    still = put(left, ("simulation", "jitter_s"), 0)
    left = first_of(attempt, [still] if still != left else [], left)
    ends = (*seen.nodes, CLIENT)
    left = _fewest(left, attempt, get(left, DRAWN) or ends, _with_drawn, 1)
    drawn = get(left, DRAWN) or ()
    links = [link for one in drawn for link in ([one] if ">" in one else [f"{one}>{to}" for to in ends if to != one])]
    if links != list(drawn) and first_of(attempt, [_with_drawn(left, links)], left) is not left:
        left = _fewest(left, attempt, links, _with_drawn, 1)
    return left


def _with_drawn(document: Document, links: Sequence[str]) -> Document:
    return put(document, DRAWN, list(links))


def other_seeds(document: Document, attempt: Attempt, seen: Trial) -> Document:
    """Try half of the load or of its time with the draws of another seed. Some failures need luck, a race that is won
    say: much load buys it, and so do a few seeds."""
    smaller = []
    gaps = _gaps(document)
    longest = max(range(len(gaps)), key=gaps.__getitem__)
    if gaps[longest] >= LONG_S:
        smaller.append(_with_gap(document, round(gaps[longest] / 2, 2), number=longest))
    for knob in knobs(document, "workloads"):
        below = [value for value in knob.smaller(knob.value) if 2 * value <= knob.value + knob.floor]
        smaller += [knob.set(document, value) for value in below[-1:]]
    candidates = [{**less, SEED: seed} for less in smaller for seed in OTHER_SEEDS]
    return first_of(attempt, candidates, document)


def _plainer(document: Document, path: Path, field: dataclasses.Field[Any]) -> Iterator[Document]:
    written = get(document, path)
    if field.name == "target":
        return
    if isinstance(field.default, bool):
        if field.default if written is None else written:
            yield put(document, path, False)
    elif isinstance(written, Mapping):
        yield drop(document, path)
        yield from (drop(document, (*path, key)) for key in written if len(written) > 1)
    elif written is not None and written != plain(field.default):
        lessened = field.metadata.get(WITHIN) or field.name.endswith("_per_s") or path[0] == "faults"
        if not _is_number(written) or not lessened:
            yield drop(document, path)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _faults(document: Document) -> list[Path]:
    """Return where each fault, or step of a sequence, stands."""
    found: list[Path] = []
    for place, entry in enumerate(document.get("faults", ())):
        kind = next((kind for kind in SEVERAL if kind in entry), "")
        steps = range(len(entry[kind])) if kind else ()
        found += [("faults", place, kind, step) for step in steps] if kind else [("faults", place)]
    return found


def _name(entry: Mapping[str, Any]) -> str:
    """Return the name of the fault of an entry, or of a step."""
    return next(key for key in entry if key not in ENTRY_KEYS)


def _uses(document: Document, section: str) -> list[tuple[Path, PluginKind]]:
    """Return where the options of each plug-in of a section stand."""
    if section == "system":
        return [(("system", name), PluginKind.DRIVER) for name in document["system"]]
    if section == "workloads":
        uses = enumerate(document["workloads"])
        return [(("workloads", place, next(iter(use))), PluginKind.WORKLOAD) for place, use in uses]
    return [((*path, _name(get(document, path))), PluginKind.FAULT) for path in _faults(document)]
