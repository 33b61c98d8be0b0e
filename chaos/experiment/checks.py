"""What an experiment is checked against besides its grammar: the deployment, the system under test, and its nodes.

The functions below are what the annotations in ``chaos.experiment.model`` call; the :class:`Setting` comes to them as
pydantic's context.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo, ValidatorFunctionWrapHandler

from chaos import plugins
from chaos.driver import CanAddBrokers, Dials, Driver, HasClientLibrary, HasClientPrograms, TellsEvents
from chaos.errors import BadInput, meant
from chaos.experiment import powers, waits
from chaos.experiment.capabilities import (
    can,
    deployment_class,
    deployments_that,
    faults_on_links,
    link_actions,
    link_actions_of,
    methods,
)
from chaos.experiment.forms import Mistake, at, mistakes
from chaos.experiment.options import PluginUse
from chaos.experiment.profiles import KEY, Promises
from chaos.experiment.source import Place
from chaos.experiment.targets import CLIENT, Target, is_target
from chaos.fault import FitsSystems
from chaos.node import NodeSpec
from chaos.plugins import PluginKind, nearest
from chaos.program import problems
from chaos.services import CanCreateTopics

#: What a workload needs whose clients are programs.
PROGRAMS = frozenset({HasClientLibrary, HasClientPrograms})
#: A run's directory is named after its experiment.
LONGEST_NAME = 100
#: No schedule fires more often, nor do all of a run together more often than that.
LEAST_PERIOD_S = 0.001
MOST_MOMENTS = 100_000
#: Random moments are never closer than this, so that a tiny mean can't flood a run.
LEAST_GAP_S = 0.1
#: Faults of a swarm may come up to so many times as often as the file says.
DENSEST = 2
#: Words for the node of a trigger, besides names.
TRIGGER_NODES = ("any", "master", "slave")
#: The word for an event that each seed draws of those that nodes trace.
DRAWN = "drawn"
#: Keys that some entries have and others not, and why not.
MISPLACED = {
    **{key: f"a step can't say {key!r}: it follows the one before it" for key in ("at", "every", "random", "when")},
    **dict.fromkeys(("sequence", "each"), "each step is one fault; it can't be a sequence, each or swarm itself"),
    "swarm": "a swarm can't stand inside of another entry",
    "rest": "'rest' is for the steps of a sequence",
}

#: Where the powers of drivers stand that faults ask for; all others are those of deployments.
OF_DRIVERS = ("chaos.driver", "chaos.services")


@dataclass(slots=True, kw_only=True)
class Setting:
    """What the parts of a file are checked against. It grows while the file is read: what the system and the durations
    say is known when the faults come. What isn't known, since it was wrong, is not checked against."""

    deployment: str
    mutant: str
    host: type | None = None
    driver: Driver | None = None
    nodes: tuple[str, ...] = ()
    programs: tuple[NodeSpec, ...] = ()  # the nodes that are programs of others
    newcomers: tuple[str, ...] = ()  # nodes that there have not been yet
    named: set[str] = field(default_factory=set)  # those of them that faults name
    joining: bool = True  # whether faults may name them
    events: tuple[str, ...] = ()  # none: unknown
    duration_s: float = 0.0
    quiet_s: float = 0.0
    injects: bool = True  # whether its faults will be injected, so that the deployment must be able to
    problems: list[str] = field(default_factory=list)  # with what was asked for besides the file
    elsewhere: list[Mistake] = field(default_factory=list)  # that showed at another place than their own

    def __post_init__(self) -> None:
        try:
            self.host = deployment_class(self.deployment)
        except BadInput as error:
            self.problems.append(str(error))


def name(value: str) -> str:
    if not re.fullmatch(r"\w[\w.-]*", value):
        raise ValueError(f"expected letters, digits, '-', '_' and '.', a letter or digit first, got {value!r}")
    if len(value.encode()) > LONGEST_NAME:
        raise ValueError(f"expected at most {LONGEST_NAME} bytes, got {len(value.encode())}")
    return value


def name_of(file: Path) -> str:
    """Return the name of an experiment that gives itself none: its file's, as far as it can be one."""
    made = re.sub(r"[^\w.-]+", "-", file.stem).lstrip("-.")
    return made.encode()[:LONGEST_NAME].decode("utf-8", "ignore") or "experiment"


def system(use: PluginUse, info: ValidationInfo[Any]) -> PluginUse:
    """Check that the system can promise what the profile says, and that it has the mutant."""
    setting: Setting = info.context
    promises: Promises = info.data.get("promises", Promises())
    with at():
        known = [mutant.name for mutant in plugins.mutants(use.name)] if setting.mutant else [""]
        if setting.mutant not in known:
            hint = nearest(setting.mutant, known) or f"the system {use.name!r} has none"
            setting.problems.append(f"unknown planted bug {setting.mutant!r}; {hint}")
            return use
        variations = [variation.build() for variation in use.variations()]
        try:
            kept = [there for driver in variations for there in promises.kept_by(driver)]
            driver, cluster = kept[0], kept[0].cluster(setting.mutant)
        except (ValueError, BadInput) as error:
            if not promises.said or not _stands(variations[0], setting.mutant):
                raise
            setting.elsewhere.append(((KEY,), str(error)))
            return use
        setting.nodes, setting.programs = cluster.names(), tuple(spec for spec in cluster.nodes if spec.program)
        setting.problems += problems(
            {spec.name: spec.program for spec in setting.programs if spec.program}, setting.nodes
        )
        if setting.host and (refused := powers.refusal(setting.host, setting.deployment, cluster.nodes)):
            setting.problems.append(refused)
        for there in kept:  # faults name nodes that there are whatever is drawn
            names = there.cluster(setting.mutant).names()
            setting.nodes = tuple(node for node in setting.nodes if node in names)
    setting.driver = driver
    setting.newcomers = driver.newcomers() if isinstance(driver, CanAddBrokers) else ()
    setting.events = tuple(driver.events()) if isinstance(driver, TellsEvents) else ()
    return use


def _stands(driver: Driver, mutant: str) -> bool:
    """Return whether the system can be set up as its driver has it, so that it is the file's profile that does not
    fit."""
    try:
        driver.cluster(mutant)
    except (ValueError, BadInput):
        return False
    return True


def workload(given: Any, inner: ValidatorFunctionWrapHandler, info: ValidationInfo[Any]) -> PluginUse:
    """Check that the driver has the powers that the workload needs."""
    use: PluginUse = inner(given)
    made = use.build()
    driver, needed = info.context.driver, tuple(getattr(made, "needs", ()))
    lacking = [power for power in needed if driver and not can(type(driver), power)]
    with at(use.name):
        for power in lacking:
            raise ValueError(f"it needs a system whose driver has {power.__name__} ({', '.join(methods(power))})")
        if info.context.host and PROGRAMS.intersection(needed) and not can(info.context.host, Dials):
            others = "`, `--on ".join(deployments_that(partial(can, power=Dials)))
            raise ValueError(
                f"its clients are programs, and {info.context.deployment} has no addresses at which they could reach"
                f" nodes; what would do: `--on {others}`"
            )
        if info.context.host and not powers.starts(info.context.host) and CanCreateTopics in needed:
            raise ValueError(
                f"{info.context.deployment} finds a cluster that may hold topics of the names that it makes"
            )
    if isinstance(made, FitsSystems) and driver and (found := made.misfits(driver)):
        raise mistakes(((use.name, option), problem) for option, problem in found.items())
    return use


def draws(value: str) -> str:
    if not re.fullmatch(r"\d+(/\d+){0,2}", value, re.ASCII):
        raise ValueError(
            f"expected the number of a fault, and perhaps of one of its times, such as '3/1', got {value!r}"
        )
    return value


def quiet(seconds: float, info: ValidationInfo[Any]) -> float:
    duration_s = info.data.get("duration_s", math.inf)
    if seconds >= duration_s:
        raise ValueError(f"{seconds:g}s leave no time for faults in a load of {duration_s:g}s")
    return seconds


def faults(given: Any, inner: ValidatorFunctionWrapHandler, info: ValidationInfo[Any]) -> Any:
    """Read the faults, now that all else is known. They can name nodes that there have not been yet where some fault
    adds them; else they are read once more, without those."""
    setting: Setting = info.context
    setting.duration_s, setting.quiet_s = info.data.get("duration_s", math.inf), info.data.get("quiet_s", 0.0)
    found = inner(given)
    if wrong := [*waits.problems(found, list(_places(given)), setting.deployment), *_without_event(found, given)]:
        raise mistakes(wrong)
    times = sum(waits.most_firings(found, setting.duration_s, DENSEST))
    if times > MOST_MOMENTS and math.isfinite(setting.duration_s):
        raise ValueError(
            f"they would fire {times:,} times in {setting.duration_s:g}s; at most {MOST_MOMENTS:,} are run"
        )
    needs = [power for spec in found for step in spec.steps() for power in step.use.build().needs]
    if not setting.named or CanAddBrokers in needs:
        return found
    setting.joining = False
    return inner(given)


def _without_event(found: Iterable[Any], given: Any) -> Iterator[Mistake]:
    """Targets that only an event can name."""
    for spec, place in zip(found, _places(given), strict=True):
        for step in spec.steps():
            if getattr(step.use.options, "target", "") == Target.EVENT_NODE and spec.schedule.when is None:
                yield place, f"the target {Target.EVENT_NODE} is for faults with `when`: the node that traced the event"


def _places(given: Any) -> Iterator[Place]:
    """Where each fault of the file stands, in their order."""
    for number, entry in enumerate(given or ()):
        if isinstance(entry, dict) and "swarm" in entry:
            yield from ((number, "swarm", place) for place in range(len(entry["swarm"])))
        else:
            yield (number,)


def sequence(steps: Any) -> Any:
    """Check that the first step comes after none."""
    return _without_after(steps, steps[:1], "the first step follows none; its entry says when it fires")


def in_turn(steps: Any) -> Any:
    return _without_after(steps, steps, "it is for the steps of a sequence; here each fires when its turn comes")


def _without_after(steps: Any, some: Iterable[Any], why: str) -> Any:
    if found := [((number, "after"), why) for number, step in enumerate(some) if step.after_s is not None]:
        raise mistakes(found)
    return steps


def period(seconds: float) -> float:
    if seconds < LEAST_PERIOD_S:
        raise ValueError(f"{seconds * 1000:g}ms is too short; a period is {LEAST_PERIOD_S * 1000:g}ms at least")
    return seconds


def moment(seconds: float, info: ValidationInfo[Any]) -> float:
    """Check that a fault fires at this moment: one that never would is a mistake."""
    end_s, begin_s = info.context.duration_s, info.context.duration_s - info.context.quiet_s
    if seconds >= end_s:
        raise ValueError(f"{seconds:g}s is not before the end of the load ({end_s:g}s)")
    if seconds >= begin_s:
        raise ValueError(f"{seconds:g}s is in the quiet time, in which no fault lasts ({begin_s:g}s to the end)")
    return seconds


def link(value: str, info: ValidationInfo[Any]) -> str:
    """Check a link of the simulator, or all that begin at one end: nodes by their names, or the word for all
    clients."""
    setting: Setting = info.context
    ends, words = value.split(">"), (*setting.nodes, *setting.newcomers, CLIENT)
    if len(ends) > 2:
        raise ValueError(f"expected `a` or `a>b`, got {value!r}")
    for end in ends:
        if setting.nodes and end not in words:
            raise ValueError(f"no node {end!r}; {nearest(end, words)}")
    if ends[1:] == ends[:1]:
        raise ValueError(f"expected two ends, got {value!r}")
    return value


def trigger(value: Any, info: ValidationInfo[Any]) -> Any:
    setting: Setting = info.context
    found = []
    if setting.nodes and value.node not in (words := (*TRIGGER_NODES, *setting.nodes)):
        found += _no_node(setting, value.node, words, "node")
    if value.event == DRAWN and setting.driver and not setting.events:
        found.append((("event",), "nothing to draw from: the driver does not say which events its nodes trace"))
    if setting.events and value.event not in (DRAWN, *setting.events):
        hint = nearest(value.event, (DRAWN, *setting.events))
        found.append((("event",), f"no node traces an event {value.event!r}; {hint}"))
    if value.gap_s and value.times == 1:
        found.append((("gap",), "it fires once; say how often with `times`"))
    if found:
        raise mistakes(found)
    return value


def fault(given: dict[str, Any], inner: ValidatorFunctionWrapHandler, info: ValidationInfo[Any]) -> PluginUse:
    """``given``: the keys of an entry that are no fields, of which there must be one, the fault's name. The deployments
    that it is meant for must be able to do it, and its target must be there."""
    setting: Setting = info.context
    if len(given) != 1 or given.keys() & MISPLACED.keys():
        raise mistakes(_not_one_fault(given))
    use: PluginUse = inner(given)
    made, target = use.build(), getattr(use.options, "target", "")
    links = bool(link_actions(made))
    found: list[Mistake] = []
    on = info.data.get("on")  # None: it was wrong
    if setting.host and setting.injects and on is not None and (not on or setting.deployment in on):
        found += (((), problem) for problem in _lacking(setting, made, setting.host, clients=target == CLIENT))
        if setting.programs and target != CLIENT and not setting.problems:
            faulted = target if target in setting.nodes else ""
            unable = powers.unable(setting.host, setting.deployment, setting.programs, faulted, made)
            found += (((), problem) for problem in unable)
    if isinstance(made, FitsSystems) and setting.driver is not None and not found and on is not None:
        found += (((option,), problem) for option, problem in made.misfits(setting.driver).items())
    if setting.nodes and isinstance(target, str) and target and not is_target(target, setting.nodes, links=links):
        words = (*(str(word) for word in Target), *setting.nodes, *((CLIENT,) if links else ()))
        found += _no_node(setting, target, words, "target")
    if found:
        raise mistakes(((*given, *place), text) for place, text in found)
    return use


def _not_one_fault(given: dict[str, Any]) -> Iterator[Mistake]:
    names = plugins.names(PluginKind.FAULT)
    known = (*names, *plugins.aliases(PluginKind.FAULT))
    unknown = [key for key in given if key not in known]
    for key in unknown:
        hint = meant(key, (*MISPLACED, "for", "on", *known)) or nearest(key, names)
        yield (key,), MISPLACED.get(key, f"unknown key {key!r}; {hint}")
    if not unknown:
        yield (), f"each entry names exactly one fault, got {sorted(given) or 'none'}"


def _lacking(setting: Setting, made: Any, host: type, *, clients: bool) -> Iterator[str]:
    """Each power must be one of the deployment's or of the driver's, and the links must be able to do it."""
    for power in made.needs:
        if setting.driver is None or can(host, power) or can(type(setting.driver), power):
            continue
        if power.__module__ in OF_DRIVERS:
            yield f"the system's driver can't do it (it lacks {power.__name__}), wherever it runs; take it out"
        else:
            others = deployments_that(partial(can, power=power))
            yield f"{setting.deployment} can't do it (it lacks {power.__name__}); {_elsewhere(others)}"
    able = link_actions_of(host, clients=clients)
    if lacking := [action.__name__ for action in link_actions(made) if action not in able]:
        wanted = frozenset(link_actions(made))
        others = deployments_that(lambda found: wanted <= link_actions_of(found, clients=clients))
        yield (
            f"the links of {setting.deployment} can't do it (they lack {', '.join(lacking)});"
            f" they can: {', '.join(faults_on_links(able))}; {_elsewhere(others)}"
        )


def _elsewhere(able: Sequence[str]) -> str:
    """Return what to do about a fault that only these deployments can do."""
    return f"say `on: [{', '.join(able)}]`, or take it out" if able else "no deployment can: take it out"


def _no_node(setting: Setting, node: str, words: Sequence[str], key: str) -> list[Mistake]:
    """Return the mistake of a name that is no node's."""
    problem = f"no node {node!r}; {nearest(node, words)}"
    if node not in setting.newcomers:
        return [((key,), problem)]
    setting.named.add(node)
    return [] if setting.joining else [((key,), f"{problem} Or add it first: `membership: {{change: add}}`")]
