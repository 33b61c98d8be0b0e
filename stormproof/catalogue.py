"""The faults as a catalogue, read from their code: who can do them, to whom, how they prove themselves, how they end.

``python -m stormproof.catalogue docs/faults.md`` writes the tables of that page again, between its marks.
"""

from __future__ import annotations

import dataclasses
import sys
import textwrap
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

from chaos import plugins
from chaos.deployment import CanHarmDisks, CanRollBackDisks, CanSkewClocks, ExpectsSkewedClocks
from chaos.driver import ALIASES, ClusterView, ReplicaGroup
from chaos.errors import BadInput
from chaos.experiment.capabilities import can, deployment_class, link_actions, link_actions_of
from chaos.experiment.forms import Within
from chaos.experiment.options import WITHIN
from chaos.experiment.powers import never
from chaos.experiment.targets import CLIENT
from chaos.fault import Fault, Injection, NotNow, Probes, Verb
from chaos.plugins import PluginKind

BEGIN, END = "<!-- made by stormproof.catalogue: {} -->", "<!-- end -->"
#: No line of prose on the page is longer.
WIDTH = 120

#: How option names end, and what that says.
UNITS: Mapping[str, str] = {
    "_per_s": "per second",
    "_s": "s",
    "_ms": "ms",
    "_bytes": "bytes",
    "_ppm": "millionths",
    "per_mille": "in 1000",
    "_percent": "%",
}
#: What shows that an injection took effect, by the verb that takes it back.
PROOFS: Mapping[str, str] = {
    "start": "process id and start time are gone",
    "resume": "the operating system reports the process as stopped",
    "clear_rule": "its rules count what they delayed, changed or broke",
    "clear_disk": "its rules count what they refused, delayed or changed",
    "add_controller": "the answer of the controllers, which say who belongs to them",
    "undrain": "the answer of the system, which says what it has taken away",
    "mend_tier": "its rules count the requests that they hit",
    "release": "the limit or load that the operating system reports",
    "reset_clock": "the clock before and after",
}
#: What a probe of such a fault shows besides, while it lasts and afterwards.
SHOWN: Mapping[str, str] = {
    "start": "no answer to a ping, then one again",
    "resume": "no answer to a ping, then one again",
    "clear_rule": "connections through the cut fail, others work; then all work again",
}
#: What those show besides that harm what a disk holds.
HARMED: Mapping[type, str] = {
    CanHarmDisks: "each change: file, place, bytes before and after",
    CanRollBackDisks: "the files that were replaced by their old copies",
}
WITHOUT_UNDO = "the answer of the system under test"
#: Said of a deployment whose kernel must know that for the fault as it is; with clients as targets it need not.
NETEM = "with netem"
FAKETIME = "with libfaketime"

#: A system in which every fault finds somebody to hit.
BROKERS = ("broker-0", "broker-1", "broker-2", "broker-3", "broker-4")
SAMPLE = ClusterView(
    groups=(ReplicaGroup(name="broker-a", replicas=BROKERS, leader="broker-0", epoch=1, in_sync=BROKERS),),
    controllers=("controller-0", "controller-1", "controller-2"),
    others=("nameserver-0", "nameserver-1"),
    tier=("store-0",),
    controller_leader="controller-0",
    settled=True,
    zones={"zone-0": ("broker-0", "broker-1")},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOption:
    """``values``: what may be chosen, where that is a closed set."""

    name: str
    unit: str
    default: object
    values: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One fault. ``deployments``: where it can be done, and with which option alone ("" for as it is). ``target``:
    the default one, "" for a fault that chooses by itself. ``aliases``: other names, and the options that they
    stand for. ``effects``: what it may do to its targets, with its default options."""

    name: str
    summary: str
    explained: str
    deployments: Mapping[str, str]
    target: str
    options: tuple[FaultOption, ...]
    aliases: Mapping[str, Mapping[str, object]]
    undo: tuple[str, ...]
    proof: tuple[str, ...]
    effects: tuple[str, ...] = ()


def entries() -> list[Entry]:
    """Return all faults, by name. Raises :class:`chaos.errors.BadInput` for a broken plug-in."""
    return [entry(name) for name in plugins.names(PluginKind.FAULT)]


def entry(name: str) -> Entry:
    """Return one fault. Raises :class:`chaos.errors.BadInput` when its file is broken."""
    module = plugins.load(PluginKind.FAULT, name)
    cls = plugins.options_class(module)
    options = options_of(cls)
    try:
        fault = plugins.build(PluginKind.FAULT, name)
    except TypeError:  # one that can't be made without options: what it does depends on them
        fault = None
    planned = _planned(fault) if fault is not None else None
    verbs = tuple(dict.fromkeys(step.verb for step in planned.undo)) if planned else ()
    target = next((str(option.default) for option in options if option.name == "target"), "")
    return Entry(
        name=name,
        summary=plugins.summary(module),
        explained=" ".join((cls.__doc__ or "").split()) if options else "",
        deployments=_deployments(name, cls, options),
        target=target,
        options=options,
        aliases=dict(getattr(module, ALIASES, {})),
        undo=tuple(str(verb) for verb in verbs),
        proof=_proof(fault, verbs) if fault is not None else (),
        effects=tuple(map(str, planned.effects or ())) if planned else (),
    )


def options_of(cls: type) -> tuple[FaultOption, ...]:
    """Return the options of any plug-in, in the order of its class."""
    return tuple(_option(cls, field) for field in plugins.fields(cls))


def _option(cls: type, field: dataclasses.Field[Any]) -> FaultOption:
    """Return an option; its unit is in its name, and its values in its type."""
    described = next(option for option in plugins.options_of(cls) if option.name == field.name)
    unit = next((unit for ending, unit in UNITS.items() if field.name.endswith(ending)), "")
    within = field.metadata.get(WITHIN)
    values = tuple(_values(plugins.hints(cls)[field.name]))
    if not values and within is not None:
        values = (Within(within).words,)
    return FaultOption(name=field.name, unit=unit, default=_plain(described.default), values=values)


def _values(hint: Any) -> Iterator[object]:
    """Yield the members of an enumeration, also of one within a tuple or besides None."""
    if isinstance(hint, type) and issubclass(hint, Enum):
        yield from (member.value for member in hint)
    elif typing.get_origin(hint) in (tuple, typing.Union, types.UnionType):
        for inner in typing.get_args(hint):
            yield from _values(inner)


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def _planned(fault: Fault) -> Injection | None:
    """Return one injection of it; None when the sample has nobody for it."""
    try:
        return fault.plan(SAMPLE, Random(0), "fault-0")
    except NotNow:
        return None


def _proof(fault: Fault, verbs: Sequence[Verb]) -> tuple[str, ...]:
    ways = [verb for verb in verbs if verb is not Verb.START] or verbs  # besides others it is for a node that may end
    found = [PROOFS[verb] for verb in ways if verb in PROOFS]
    found += [HARMED[power] for power in fault.needs if power in HARMED]
    if isinstance(fault, Probes):
        found += [SHOWN[verb] for verb in verbs if verb in SHOWN]
    return tuple(dict.fromkeys(found)) or ((WITHOUT_UNDO,) if fault.needs else ())


def _deployments(name: str, cls: type, options: Sequence[FaultOption]) -> Mapping[str, str]:
    """Return where it can be done as it is; or with one value of one option, if not as it is."""
    module = plugins.load(PluginKind.FAULT, name)
    drivers = [made for made in map(_driver_class, plugins.names(PluginKind.DRIVER)) if made is not None]
    found: dict[str, str] = {}
    for deployment in plugins.names(PluginKind.DEPLOYMENT):
        try:
            host = deployment_class(deployment)
        except BadInput:
            continue  # it is listed as broken, and can do nothing
        for words, given in _variants(options):
            try:
                fault: Fault = module.create(cls(**given))
            except (TypeError, ValueError):
                continue  # a value that doesn't go with the other defaults
            clients = given.get("target") == CLIENT
            if _can(host, drivers, fault, clients=clients):
                found[deployment] = words or ("" if clients else _provided(host, fault))
                break
    return found


def _driver_class(name: str) -> type | None:
    """Return the class of a driver; None for one that is broken, or can't be made without options."""
    try:
        return type(plugins.build(PluginKind.DRIVER, name))
    except (BadInput, TypeError, ValueError):
        return None


def _variants(options: Sequence[FaultOption]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the defaults, then clients as targets, then each value of each option that is a closed set of words."""
    yield "", {}
    if any(option.name == "target" for option in options):
        yield f"target: {CLIENT}", {"target": CLIENT}
    for option in options:
        for value in option.values if isinstance(option.default, str) else ():
            yield f"{option.name}: {value}", {option.name: value}


def _can(host: type, drivers: Sequence[type], fault: Fault, *, clients: bool) -> bool:
    able = link_actions_of(host, clients=clients)
    lacking = never(host)
    powers = all(power not in lacking and any(can(one, power) for one in (host, *drivers)) for power in fault.needs)
    return powers and all(action in able for action in link_actions(fault))


def _provided(host: type, fault: Fault) -> str:
    """Return what the machines must have for the fault to be done there as it is."""
    if CanSkewClocks in fault.needs and can(host, ExpectsSkewedClocks):
        return FAKETIME
    return NETEM if {*link_actions(fault)} & getattr(host, "KERNEL_LINK_ACTIONS", frozenset()) else ""


# The page


def write(page: str) -> str:
    """Return the page with its tables made again."""
    found = entries()
    return fill(
        page,
        {"faults": _by_place(found), "effects": _by_effect(found), "proofs": _proofs(), "options": _details(found)},
    )


def fill(page: str, parts: Mapping[str, Iterable[str]]) -> str:
    """Return the page with these lines between its marks. Raises :class:`BadInput` when a mark is missing."""
    for name, lines in parts.items():
        begin = BEGIN.format(name)
        before, mark, rest = page.partition(begin)
        if not mark or END not in rest:
            raise BadInput(f"the page has no part between {begin!r} and {END!r}")
        page = "\n".join([before + mark, "", *lines, "", END + rest.partition(END)[2]])
    return page


def _by_place(found: Sequence[Entry]) -> Iterator[str]:
    """Yield for each set of deployments the faults that can be done there: lists, since a phone has no room for a table
    with a row for each."""
    yield from _listed((_places(one.deployments), one) for one in found)


def _by_effect(found: Sequence[Entry]) -> Iterator[str]:
    yield from _listed((f"`{effect}`", one) for one in found for effect in one.effects)


def _listed(pairs: Iterable[tuple[str, Entry]]) -> Iterator[str]:
    """Yield an item for each first word of the pairs, the one with the most faults first."""
    faults: dict[str, list[str]] = {}
    for words, one in pairs:
        faults.setdefault(words, []).append(f"[`{one.name}`](#{one.name})")
    for words, names in sorted(faults.items(), key=lambda pair: -len(pair[1])):
        yield from prose(f"* **{words}**: {', '.join(names)}", indent="  ")


def _places(able: Mapping[str, str]) -> str:
    """Return where it can be done: as it is, then under each condition."""
    every = plugins.names(PluginKind.DEPLOYMENT)
    plain = [name for name in every if able.get(name) == ""]
    never = [name for name in every if name not in able]
    if len(plain) + len(never) == len(every) and len(never) < len(plain):
        return f"all but {', '.join(never)}" if never else "all"
    conditions = {words: [name for name in every if able.get(name) == words] for words in able.values() if words}
    found = [", ".join(plain)] if plain else []
    return "; ".join(found + [f"{', '.join(names)} (`{words}`)" for words, names in conditions.items()])


def _proofs() -> Iterator[str]:
    yield from ("| undo | proof of effect | if probed |", "|---|---|---|")
    yield from (f"| `{verb}` | {proof} | {SHOWN.get(verb, '')} |" for verb, proof in PROOFS.items())
    yield f"| none | {WITHOUT_UNDO} | |"


def _details(found: Sequence[Entry]) -> Iterator[str]:
    for one in found:
        yield from (f"### {one.name}", "", one.summary, "")
        if one.options:
            yield from explained(one.explained, one.options)
        if said := _ending(one):
            yield from (*prose(said), "")


def _ending(one: Entry) -> str:
    probed = "; probed" if any(shown in one.proof for shown in SHOWN.values()) else ""
    said = [f"Effects: {_words(one.effects)}."] if one.effects else []
    said += [f"Undo: {_words(one.undo)}{probed}."] if one.undo else []
    said += [f"Proof: {proof}." for proof in one.proof if proof in HARMED.values()]
    if one.aliases:
        said.append(f"Also: {', '.join(_alias(name, one.aliases[name]) for name in sorted(one.aliases))}.")
    return " ".join(said)


def _alias(name: str, given: Mapping[str, object]) -> str:
    words = ", ".join(f"{key}: {_word(value)}" for key, value in given.items())
    return f"`{name}` ({words})" if words else f"`{name}`"


def explained(text: str, options: Sequence[FaultOption]) -> Iterator[str]:
    """Yield what the docstring of an options class says, and a list of its options."""
    yield from (*prose(text.replace("``", "`")), "")
    for option in options:
        default = f" = {_word(option.default)}" if _word(option.default) else ""
        bounds = ", ".join(str(one) for one in (option.unit, *option.values) if one != "")
        yield from prose(f"* `{option.name}{default}`{f' ({bounds})' if bounds else ''}", indent="  ")
    yield ""


def _word(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_word(one) for one in value)
    return "" if value is None or value == "" else str(value)


def _words(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def prose(text: str, *, indent: str = "") -> list[str]:
    """Return a text as lines of the page, those after the first one indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(write(path.read_text("utf-8")).rstrip("\n") + "\n", "utf-8")


if __name__ == "__main__":
    main()
