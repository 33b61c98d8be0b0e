"""Reads an experiment from YAML and checks all of it before anything starts: every mistake at once, with its line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from chaos import plugins
from chaos.driver import CanAddBrokers, Driver, Profile, TellsEvents, promising
from chaos.effects.links import ACTIONS
from chaos.errors import BadInput, ChaosError
from chaos.experiment import inventory
from chaos.experiment.model import Bounds, Experiment, FaultSpec, Schedule, Trigger, Use
from chaos.experiment.source import Located, Problems, located, read_yaml
from chaos.experiment.targets import CLIENT, Target, is_target
from chaos.plugins import PluginKind, nearest

T = TypeVar("T")

TOP_KEYS = ("name", "system", "profile", "duration", "quiet", "bounds", "workloads", "faults", "hosts")
WHEN_KEYS = ("at", "every", "random", "when")
STEP_KEYS = ("for", "rest", "on")
FAULT_KEYS = (*WHEN_KEYS, *STEP_KEYS)
SEQUENCE, EACH, SWARM = "sequence", "each", "swarm"
TRIGGER_KEYS = ("event", "node", "skip", "times")
#: Words for a trigger's node, besides names.
TRIGGER_NODES = ("any", "master", "slave")
#: A run's directory is named after its experiment.
LONGEST_NAME = 100
#: Where an option says in its metadata which numbers it takes, as a ``range``.
WITHIN = "within"
#: No number is larger than what a double holds exactly.
LARGEST = 2**53


def load(path: Path, *, deployment: str, mutant: str = "") -> Experiment:
    """Read and check an experiment for this deployment. Raises :class:`BadInput` that holds every problem found."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"cannot read {path}: it is no UTF-8 text (byte {error.start})") from error
    problems = Problems(str(path))
    reader = _Reader(problems, deployment, mutant)
    experiment = reader.experiment(read_yaml(path, text, problems), path.stem, text)
    problems.raise_if_any()
    assert experiment is not None
    return experiment


def is_duration(field_name: str) -> bool:
    """Whether an option of this name is a duration in seconds."""
    return field_name.endswith("_s") and not field_name.endswith("_per_s")


class _Reader:
    def __init__(self, problems: Problems, deployment: str, mutant: str) -> None:
        self._problems = problems
        self._deployment = deployment
        self._mutant = mutant
        self._driver: Driver | None = None
        self._nodes: tuple[str, ...] = ()
        self._newcomers: tuple[str, ...] = ()
        self._events: tuple[str, ...] = ()  # none: nobody knows
        self._quiet_s = 0.0
        self._meant: list[tuple[int, str]] = []  # where newcomers are named: the line, and what is wrong without them
        self._hosts: type | None = None
        self._swarms = 0

    def experiment(self, root: Located, stem: str, text: str) -> Experiment | None:
        problems = self._problems
        given = problems.mapping(root, "the experiment")
        problems.unknown_keys(given, TOP_KEYS, "the experiment")
        for key in ("system", "duration", "workloads"):
            if key not in given:
                problems.add(root.line, f"{key!r} is missing")
        self._find_deployment()
        name = self._name(given["name"]) if "name" in given else stem
        profile = self._fill(Profile, given["profile"], "profile") if "profile" in given else None
        system = self._system(given["system"], profile) if "system" in given else None
        duration_s = self._positive(given["duration"], "duration") if "duration" in given else 0.0
        bounds = self._fill(Bounds, given["bounds"], "bounds") if "bounds" in given else Bounds()
        workloads = self._workloads(given["workloads"]) if "workloads" in given else []
        self._quiet_s = self._quiet(given["quiet"], duration_s) if "quiet" in given else 0.0
        entries = problems.sequence(given["faults"], "faults") if "faults" in given else []
        faults = [fault for entry in entries for fault in self._entry(entry, duration_s)]
        self._check_newcomers(faults)
        hosts = inventory.read(given["hosts"], problems) if "hosts" in given else ()
        if system is None or bounds is None or self._driver is None or len(problems):
            return None
        return Experiment(
            name=name,
            system=system,
            profile=self._driver.profile(),
            duration_s=duration_s,
            bounds=bounds,
            workloads=tuple(workloads),
            faults=tuple(faults),
            quiet_s=self._quiet_s,
            hosts=hosts,
            source=text,
        )

    def _name(self, node: Located) -> str:
        name = node.value
        if not isinstance(name, str) or not name or not all(c.isalnum() or c in "-_." for c in name) or name[0] == ".":
            self._problems.add(node.line, f"name: expected letters, digits, '-', '_' and '.', got {name!r}")
        elif len(name.encode()) > LONGEST_NAME:
            self._problems.add(node.line, f"name: expected at most {LONGEST_NAME} bytes, got {len(name.encode())}")
        return str(name)

    # -- the system under test

    def _find_deployment(self) -> None:
        try:
            self._hosts = deployment_class(self._deployment)
        except BadInput as error:
            self._problems.add(0, str(error))

    def _system(self, node: Located, profile: Profile | None) -> Use | None:
        use = self._use(PluginKind.DRIVER, node, "system")
        if use is None:
            return None
        problem = _mutant_problem(use.name, self._mutant)
        if problem:
            self._problems.add(0, problem)
            return use
        driver = self._made(use, node)
        if driver is not None:
            try:
                self._driver = promising(driver, profile) if profile else driver
                self._nodes = self._driver.cluster(self._mutant).names()
                self._newcomers = self._driver.newcomers() if isinstance(self._driver, CanAddBrokers) else ()
                self._events = tuple(self._driver.events()) if isinstance(self._driver, TellsEvents) else ()
            except (ChaosError, ValueError) as error:
                self._problems.add(node.line, f"system {use.name}: {error}")
        return use

    def _workloads(self, node: Located) -> list[Use]:
        entries = self._problems.sequence(node, "workloads")
        if not entries:
            self._problems.add(node.line, "workloads: at least one is needed, or nothing can be judged")
        uses = [(entry, self._use(PluginKind.WORKLOAD, entry, "workloads")) for entry in entries]
        return [use for entry, use in uses if use and self._usable(use, entry)]

    def _usable(self, use: Use, entry: Located) -> bool:
        """Whether the workload can be made, and the driver has the powers that it needs."""
        workload = self._made(use, entry)
        for power in getattr(workload, "needs", ()):
            if self._driver is not None and not can(type(self._driver), power):
                text = f"workload {use.name}: it needs a system whose driver has {power.__name__}"
                self._problems.add(entry.line, f"{text} ({', '.join(_methods(power))})")
        return workload is not None

    # -- faults

    def _quiet(self, node: Located, duration_s: float) -> float:
        quiet_s = self._problems.duration(node, "quiet")
        if duration_s and quiet_s >= duration_s:
            self._problems.add(node.line, f"quiet: {quiet_s:g}s leave no time for faults in a load of {duration_s:g}s")
        return quiet_s

    def _entry(self, entry: Located, duration_s: float) -> list[FaultSpec]:
        """One entry of ``faults``: a fault, several of them in a sequence or in turn, or a swarm of entries."""
        given = entry.value if isinstance(entry.value, dict) else {}
        if SWARM in given:
            return self._swarm(given, entry.line, duration_s)
        if SEQUENCE in given or EACH in given:
            made = self._several(given, entry.line, duration_s)
        else:
            made = self._fault(entry, duration_s)
        return [made] if made else []

    def _swarm(self, given: dict[str, Located], line: int, duration_s: float) -> list[FaultSpec]:
        self._problems.unknown_keys(given, (SWARM,), SWARM)
        entries = self._problems.sequence(given[SWARM], SWARM)
        if not entries:
            self._problems.add(line, "swarm: expected a list of faults for the seed to draw from")
        self._swarms += 1
        group = self._swarms
        found = []
        for entry in entries:
            if isinstance(entry.value, dict) and SWARM in entry.value:
                self._problems.add(entry.line, "swarm: a swarm can't hold another one")
            else:
                found += [dataclasses.replace(one, swarm=group) for one in self._entry(entry, duration_s)]
        return found

    def _several(self, given: dict[str, Located], line: int, duration_s: float) -> FaultSpec | None:
        """Faults one after another: all of a ``sequence`` whenever the schedule strikes, or one of ``each``. ``for``,
        ``rest`` and ``on`` hold for each step without its own."""
        problems = self._problems
        word = SEQUENCE if SEQUENCE in given else EACH
        keys = (word, *(key for key in FAULT_KEYS if word == SEQUENCE or key != "rest"))
        problems.unknown_keys(given, keys, word)
        entries = problems.sequence(given[word], word)
        if not entries:
            problems.add(line, f"{word}: expected a list of faults")
        schedule = self._schedule(given, line, word, duration_s)
        common = {key: given[key] for key in STEP_KEYS if key in given}
        then: FaultSpec | None = None
        for entry in reversed(entries):
            own = entry.value if isinstance(entry.value, dict) else {str(entry.value): Located(None, entry.line)}
            for key in own.keys() & set(WHEN_KEYS):
                problems.add(own[key].line, f"{word}: a step can't say {key!r}: it follows the one before it")
            words = {key: node for key, node in own.items() if key not in FAULT_KEYS}
            if own.keys() & {SEQUENCE, EACH, SWARM}:
                problems.add(
                    entry.line, f"{word}: each step is one fault; it can't be a sequence, each or swarm itself"
                )
                continue
            step = self._fault_of(words, {**common, **own}, entry.line, schedule or Schedule())
            then = dataclasses.replace(step, then=then) if step else then
        return dataclasses.replace(then, in_turn=word == EACH) if then and schedule else None

    def _fault(self, entry: Located, duration_s: float) -> FaultSpec | None:
        given = self._problems.mapping(entry, "faults")
        words = {key: node for key, node in given.items() if key not in FAULT_KEYS}
        what = f"fault {next(iter(words), '?')}"
        if "rest" in given:
            self._problems.add(given["rest"].line, f"{what}: 'rest' is for the steps of a sequence")
        schedule = self._schedule(given, entry.line, what, duration_s) if len(words) == 1 else None
        made = self._fault_of(words, given, entry.line, schedule or Schedule())
        return made if schedule else None

    def _fault_of(
        self, words: dict[str, Located], given: Mapping[str, Located], line: int, schedule: Schedule
    ) -> FaultSpec | None:
        """A fault by its only word, with what ``given`` says of how long and where."""
        problems = self._problems
        if len(words) != 1:
            self._not_one_fault(words, line)
            return None
        use = self._use(PluginKind.FAULT, Located(words, line), "faults")
        what = f"fault {next(iter(words))}"
        on = self._on(given["on"], what) if "on" in given else ()
        for_s = self._positive(given["for"], f"{what}: for") if "for" in given else 0.0
        rest_s = problems.duration(given["rest"], f"{what}: rest") if "rest" in given else 0.0
        if use is None:
            return None
        spec = FaultSpec(use=use, schedule=schedule, for_s=for_s, on=on, rest_s=rest_s)
        fault = self._made(use, Located(None, line))
        if fault is not None and spec.holds_on(self._deployment):
            self._check_powers(use.name, fault.needs, line)
            self._check_links(use, link_actions(fault), line)
        self._check_target(use, next(iter(words.values())), links=bool(link_actions(fault)))
        return spec

    def _not_one_fault(self, words: dict[str, Located], line: int) -> None:
        known = (*plugins.names(PluginKind.FAULT), *plugins.aliases(PluginKind.FAULT))
        unknown = [key for key in words if key not in known]
        for key in unknown:
            hint = nearest(key, (*FAULT_KEYS, SEQUENCE, EACH, SWARM, *known))
            hint = hint if hint.startswith("did") else nearest(key, plugins.names(PluginKind.FAULT))
            self._problems.add(words[key].line, f"faults: unknown key {key!r}; {hint}")
        if not unknown:
            self._problems.add(line, f"faults: each entry names exactly one fault, got {sorted(words) or 'none'}")

    def _on(self, node: Located, what: str) -> tuple[str, ...]:
        known = plugins.names(PluginKind.DEPLOYMENT)
        entries = self._problems.sequence(node, f"{what}: on")
        for entry in entries:
            if entry.value not in known:
                hint = nearest(str(entry.value), known)
                self._problems.add(entry.line, f"{what}: on: unknown deployment {entry.plain!r}; {hint}")
        return tuple(str(entry.value) for entry in entries)

    def _schedule(self, given: Mapping[str, Located], line: int, what: str, duration_s: float) -> Schedule | None:
        problems = self._problems
        chosen = [key for key in WHEN_KEYS if key in given]
        if len(chosen) != 1:
            problems.add(line, f"{what}: say when with exactly one of {', '.join(WHEN_KEYS)}; got {chosen or 'none'}")
            return None
        node = given[chosen[0]]
        match chosen[0]:
            case "at":
                moments = node.value if isinstance(node.value, list) else [node]
                at_s = tuple(problems.duration(moment, f"{what}: at") for moment in moments)
                for moment, seconds in zip(moments, at_s, strict=True):
                    self._check_moment(f"{what}: at {moment.plain}", seconds, moment.line, duration_s)
                return Schedule(at_s=at_s)
            case "every":
                every_s = self._positive(node, f"{what}: every")
                self._check_moment(f"{what}: every: the first moment", every_s, node.line, duration_s)
                return Schedule(every_s=every_s)
            case "random":
                keys = problems.mapping(node, f"{what}: random")
                problems.unknown_keys(keys, ("mean",), f"{what}: random")
                if "mean" not in keys:
                    problems.add(node.line, f"{what}: random: 'mean' is missing")
                    return None
                return Schedule(mean_s=self._positive(keys["mean"], f"{what}: random: mean"))
            case _:
                trigger = self._fill(Trigger, node, f"{what}: when")
                words = (*TRIGGER_NODES, *self._nodes)
                if trigger and self._nodes and trigger.node not in words:
                    self._no_node(trigger.node, words, node.line, f"{what}: when")
                if trigger and self._events and trigger.event not in self._events:
                    hint = nearest(trigger.event, self._events)
                    problems.add(node.line, f"{what}: when: no node traces an event {trigger.event!r}; {hint}")
                return Schedule(when=trigger)

    def _check_moment(self, what: str, seconds: float, line: int, duration_s: float) -> None:
        """A fault that would never strike is a mistake."""
        if duration_s and seconds >= duration_s:
            self._problems.add(line, f"{what} is not before the end of the load ({duration_s:g}s)")
        elif duration_s and seconds >= duration_s - self._quiet_s:
            begin_s = duration_s - self._quiet_s
            self._problems.add(line, f"{what} is in the quiet time, in which no fault lasts ({begin_s:g}s to the end)")

    def _positive(self, node: Located, what: str) -> float:
        before = len(self._problems)
        seconds = self._problems.duration(node, what)
        if not seconds and len(self._problems) == before:
            self._problems.add(node.line, f"{what}: must be more than 0")
        return seconds

    def _check_powers(self, name: str, needs: Sequence[type], line: int) -> None:
        """Each power that the fault needs must be one of the deployment's or of the driver's."""
        hosts = [host for host in (self._hosts, type(self._driver) if self._driver else None) if host]
        for power in needs:
            if self._hosts and not any(can(host, power) for host in hosts):
                self._problems.add(
                    line,
                    f"fault {name}: {self._deployment} can't do it (it lacks {power.__name__});"
                    " say `on: [...]` with the deployments that can, or take it out",
                )

    def _check_links(self, use: Use, used: Sequence[type], line: int) -> None:
        """Each thing that the fault does to links must be one that the deployment's links can do."""
        clients = getattr(use.options, "target", "") == CLIENT
        able = link_actions_of(self._hosts, clients=clients) if self._hosts else frozenset(ACTIONS.values())
        lacking = [action.__name__ for action in used if action not in able]
        if lacking:
            self._problems.add(
                line,
                f"fault {use.name}: the links of {self._deployment} can't do it (they lack {', '.join(lacking)});"
                f" they can: {', '.join(_faults_on_links(able))}; or say `on: [...]` with the deployments that can",
            )

    def _check_target(self, use: Use, node: Located, *, links: bool) -> None:
        target = getattr(use.options, "target", "")
        words = (*(str(word) for word in Target), *self._nodes, *((CLIENT,) if links else ()))
        if self._nodes and isinstance(target, str) and target and not is_target(target, self._nodes, links=links):
            place = node.value["target"].line if isinstance(node.value, dict) and "target" in node.value else node.line
            self._no_node(target, words, place, f"fault {use.name}")

    def _no_node(self, name: str, words: Sequence[str], line: int, what: str) -> None:
        """A name that is no node's; one that may still join is judged when all faults are known."""
        problem = f"{what}: no node {name!r}; {nearest(name, words)}"
        if name in self._newcomers:
            self._meant.append((line, f"{problem} Or add it first: `membership: {{change: add}}`"))
        else:
            self._problems.add(line, problem)

    def _check_newcomers(self, faults: Sequence[FaultSpec]) -> None:
        """Nodes that there have not been yet can be targets where some fault adds them."""
        if not self._meant or len(self._problems):
            return
        steps = [step for fault in faults for step in fault.steps()]
        if not any(CanAddBrokers in step.use.build().needs for step in steps):
            for line, problem in self._meant:
                self._problems.add(line, problem)

    # -- plug-ins and their options

    def _use(self, kind: PluginKind, node: Located, what: str) -> Use | None:
        """A plug-in's name and options, written as ``NAME`` or ``{NAME: {OPTION: …}}``."""
        if isinstance(node.value, str):
            name, options = node.value, Located(None, node.line)
        else:
            given = self._problems.mapping(node, what)
            if len(given) != 1:
                self._problems.add(node.line, f"{what}: expected exactly one {kind}, got {sorted(given) or 'none'}")
                return None
            name, options = next(iter(given.items()))
        meant = plugins.resolve(kind, name)
        try:
            module = plugins.load(kind, meant.plugin)
            cls = plugins.options_class(module)
        except BadInput as error:
            self._problems.add(options.line, f"{what}: {error}")
            return None
        filled = self._fill(cls, _with(meant.options, options), f"{kind} {name}")
        return None if filled is None else Use(kind=kind, name=meant.plugin, options=filled)

    def _fill(self, cls: type[T], node: Located, what: str) -> T | None:
        """Make a dataclass from a mapping; None when something was wrong."""
        problems = self._problems
        before = len(problems)
        given = problems.mapping(node, what)
        own = {field.name: field for field in plugins.fields(cls)}
        values: dict[str, Any] = {}
        problems.unknown_keys(given, own, what)
        for name, field in own.items():
            if name in given:
                values[name] = self._option(cls, field, given[name], f"{what}: {name}")
            elif field.default is field.default_factory is dataclasses.MISSING:
                problems.add(node.line, f"{what}: {name!r} is missing")
        if len(problems) > before:
            return None
        try:
            return cls(**values)
        except (ValueError, ChaosError) as error:
            problems.add(node.line, f"{what}: {error}")
            return None

    def _option(self, cls: type, field: dataclasses.Field[Any], node: Located, what: str) -> object:
        value = node.plain
        if is_duration(field.name):
            return self._problems.duration(node, what, number=True)
        if isinstance(value, int | float) and not isinstance(value, bool):
            problem = _number_problem(field, value)
            if problem:
                self._problems.add(node.line, f"{what}: {problem}, got {value!r}")
                return None
        try:
            return _adapter(cls, field.name).validate_json(json.dumps(value), strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            within = "".join(f"[{place}]" for place in first["loc"])
            self._problems.add(node.line, f"{what}{within}: {_plain(first['msg'])}, got {value!r}")
        except TypeError:  # a YAML date, say
            self._problems.add(node.line, f"{what}: {value!r} is no text, number, list or mapping; quote it")
        return None

    def _made(self, use: Use, node: Located) -> Any:
        """The plug-in's object; None, and a problem, when its options don't go together."""
        try:
            return use.build()
        except (ValueError, ChaosError) as error:
            self._problems.add(node.line, f"{use.kind} {use.name}: {error}")
            return None


def _with(preset: Mapping[str, object], options: Located) -> Located:
    """The options of a name that stands for some, which those that are given override."""
    if not preset or not isinstance(options.value, dict | None):
        return options
    merged = {key: located(value, options.line) for key, value in preset.items()}
    return Located({**merged, **(options.value or {})}, options.line)


@cache
def _adapter(cls: type, name: str) -> TypeAdapter[Any]:
    return TypeAdapter(plugins.hints(cls)[name])


def _number_problem(field: dataclasses.Field[Any], value: float) -> str:
    """What is wrong with this number for this option; "" if nothing."""
    if not abs(value) <= LARGEST:
        return f"expected a number up to {LARGEST:.0e}"
    if field.name.endswith("_per_s") and value <= 0:
        return "must be more than 0"
    if value < 0 and not field.metadata.get("signed"):
        return "can't be negative"
    within = field.metadata.get(WITHIN)
    if within is None or value in within:
        return ""
    words = f"{within[0]} to {within[-1]}" if within.step == 1 else f"one of {', '.join(map(str, within))}"
    return f"expected {words}"


def _plain(message: str) -> str:
    plain = message.replace("Input should be", "expected").replace("a valid ", "a ")
    return plain.replace("a integer", "an integer")


def can(host: type, power: type) -> bool:
    """Whether a class has all methods of a capability protocol."""
    return all(callable(getattr(host, name, None)) for name in _methods(power))


def _methods(power: type) -> list[str]:
    return [name for name, member in vars(power).items() if not name.startswith("_") and callable(member)]


def link_actions(fault: object) -> tuple[type, ...]:
    """What a fault does to links; nothing for most faults."""
    return tuple(getattr(fault, "link_actions", ()))


def link_actions_of(host: type, *, clients: bool = False) -> frozenset[type]:
    """What the links of a deployment can do, or those of its clients; all, if its class doesn't say."""
    able = getattr(host, "LINK_ACTIONS", ACTIONS.values())
    return frozenset(getattr(host, "CLIENT_LINK_ACTIONS", able) if clients else able)


def _faults_on_links(able: frozenset[type]) -> list[str]:
    """The faults that do to links only these things, as they are without options."""
    found = []
    for name in plugins.names(PluginKind.FAULT):
        try:
            used = link_actions(plugins.build(PluginKind.FAULT, name))
        except (ChaosError, TypeError):  # broken, or one that can't be made without options
            continue
        if used and able.issuperset(used):
            found.append(name)
    return found


def deployment_class(name: str) -> type:
    """The class of the deployment of this name. Raises :class:`BadInput` when there is none."""
    module = plugins.load(PluginKind.DEPLOYMENT, name)
    for found in vars(module).values():
        if isinstance(found, type) and hasattr(found, "execute") and not getattr(found, "_is_protocol", False):
            return found
    raise BadInput(f"deployment {name!r} is broken: {module.__name__} has no class with a method execute()")


def _mutant_problem(driver: str, mutant: str) -> str:
    """Why this driver has no such mutant; "" if it has, or none was asked for."""
    if not mutant:
        return ""
    known = [known.name for known in plugins.mutants(driver)]
    if not known:
        return f"unknown mutant {mutant!r}: the system {driver!r} has none"
    return "" if mutant in known else f"unknown mutant {mutant!r}; {nearest(mutant, known)}"
