"""What an experiment is checked against besides its grammar: the deployment, the system under test, and its nodes.

The functions below are what the annotations in ``chaos.experiment.model`` call; the :class:`Setting` comes to them as
pydantic's context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from pydantic import ValidationInfo, ValidatorFunctionWrapHandler

from chaos import plugins
from chaos.driver import CanAddBrokers, Driver, Profile, TellsEvents, promising
from chaos.errors import BadInput
from chaos.experiment.capabilities import can, deployment_class, faults_on_links, link_actions, link_actions_of, methods
from chaos.experiment.forms import Mistake, at, mistakes
from chaos.experiment.options import Use
from chaos.experiment.targets import CLIENT, Target, is_target
from chaos.plugins import PluginKind, nearest

T = TypeVar("T")

#: A run's directory is named after its experiment.
LONGEST_NAME = 100
#: The profile of a file that says none: the system is taken as its driver has it.
AS_IT_IS = Profile()
#: Words for the node of a trigger, besides names.
TRIGGER_NODES = ("any", "master", "slave")
#: Keys that some entries have and others not, and why not.
MISPLACED = {
    **{key: f"a step can't say {key!r}: it follows the one before it" for key in ("at", "every", "random", "when")},
    **dict.fromkeys(("sequence", "each"), "each step is one fault; it can't be a sequence, each or swarm itself"),
    "swarm": "a swarm can't stand inside of another entry",
    "rest": "'rest' is for the steps of a sequence",
}


class Setting:
    """Grows while a file is read: what its ``system``, ``duration`` and ``quiet`` say is known when its faults come.
    What isn't known, since it was wrong, is not checked against."""

    def __init__(self, deployment: str, mutant: str) -> None:
        self.deployment = deployment
        self.mutant = mutant
        self.problems: list[str] = []  # with what was asked for besides the file
        self.driver: Driver | None = None
        self.duration_s = 0.0
        self.quiet_s = 0.0
        self.joining = True  # whether nodes that there have not been yet may be named
        self.named_newcomers = False
        self._nodes: tuple[str, ...] = ()
        self._newcomers: tuple[str, ...] = ()
        self._events: tuple[str, ...] = ()  # none: nobody knows
        self._host: type | None = None
        try:
            self._host = deployment_class(deployment)
        except BadInput as error:
            self.problems.append(str(error))

    def put_up(self, system: Use, profile: Profile | None) -> None:
        """Learn what the system is. Raises ``ValueError`` or :class:`chaos.errors.ChaosError` if it can't be so."""
        if self.mutant:
            known = [known.name for known in plugins.mutants(system.name)]
            if self.mutant not in known:
                hint = nearest(self.mutant, known) or f"the system {system.name!r} has none"
                self.problems.append(f"unknown mutant {self.mutant!r}; {hint}")
                return
        driver = promising(system.build(), profile) if profile else system.build()
        self._nodes = driver.cluster(self.mutant).names()
        self._newcomers = driver.newcomers() if isinstance(driver, CanAddBrokers) else ()
        self._events = tuple(driver.events()) if isinstance(driver, TellsEvents) else ()
        self.driver = driver

    def check_workload(self, use: Use) -> Iterator[str]:
        """The driver must have the powers that the workload needs."""
        for power in getattr(use.build(), "needs", ()):
            if self.driver is not None and not can(type(self.driver), power):
                yield f"it needs a system whose driver has {power.__name__} ({', '.join(methods(power))})"

    def check_moment(self, seconds: float) -> None:
        """A fault that would never strike is a mistake. Raises ``ValueError``."""
        if self.duration_s and seconds >= self.duration_s:
            raise ValueError(f"{seconds:g}s is not before the end of the load ({self.duration_s:g}s)")
        if self.duration_s and seconds >= self.duration_s - self.quiet_s:
            begin_s = self.duration_s - self.quiet_s
            raise ValueError(f"{seconds:g}s is in the quiet time, in which no fault lasts ({begin_s:g}s to the end)")

    def check_trigger(self, event: str, node: str) -> Iterator[Mistake]:
        if self._nodes and node not in (words := (*TRIGGER_NODES, *self._nodes)):
            yield from self._no_node(node, words, "node")
        if self._events and event not in self._events:
            yield ("event",), f"no node traces an event {event!r}; {nearest(event, self._events)}"

    def check_fault(self, use: Use, on: Sequence[str] | None) -> Iterator[Mistake]:
        """Whether the deployments that it is meant for can do the fault, and its target is there. ``on`` as in the
        file, None when that is wrong."""
        fault = use.build()
        if self._host and on is not None and (not on or self.deployment in on):
            yield from (((), problem) for problem in self._lacking(use, fault, self._host))
        target, links = getattr(use.options, "target", ""), bool(link_actions(fault))
        if self._nodes and isinstance(target, str) and target and not is_target(target, self._nodes, links=links):
            words = (*(str(word) for word in Target), *self._nodes, *((CLIENT,) if links else ()))
            yield from self._no_node(target, words, "target")

    def _lacking(self, use: Use, fault: Any, host: type) -> Iterator[str]:
        """Each power must be one of the deployment's or of the driver's, and the links must be able to do it."""
        for power in fault.needs:
            if self.driver is not None and not can(host, power) and not can(type(self.driver), power):
                yield (
                    f"{self.deployment} can't do it (it lacks {power.__name__});"
                    " say `on: [...]` with the deployments that can, or take it out"
                )
        able = link_actions_of(host, clients=getattr(use.options, "target", "") == CLIENT)
        lacking = [action.__name__ for action in link_actions(fault) if action not in able]
        if lacking:
            yield (
                f"the links of {self.deployment} can't do it (they lack {', '.join(lacking)});"
                f" they can: {', '.join(faults_on_links(able))}; or say `on: [...]` with the deployments that can"
            )

    def _no_node(self, name: str, words: Sequence[str], key: str) -> Iterator[Mistake]:
        """A name that is no node's; a newcomer's is one if some fault adds it."""
        hint = nearest(name, words)
        if name in self._newcomers:
            self.named_newcomers = True
            hint += " Or add it first: `membership: {change: add}`"
        if name not in self._newcomers or not self.joining:
            yield (key,), f"no node {name!r}; {hint}"


def name(value: str) -> str:
    if not value or not all(c.isalnum() or c in "-_." for c in value) or value[0] == ".":
        raise ValueError(f"expected letters, digits, '-', '_' and '.', got {value!r}")
    if len(value.encode()) > LONGEST_NAME:
        raise ValueError(f"expected at most {LONGEST_NAME} bytes, got {len(value.encode())}")
    return value


def system(use: Use, info: ValidationInfo[Any]) -> Use:
    profile = info.data.get("profile")
    with at():
        info.context.put_up(use, None if profile is AS_IT_IS else profile)
    return use


def duration(seconds: float, info: ValidationInfo[Any]) -> float:
    info.context.duration_s = seconds
    return seconds


def quiet(seconds: float, info: ValidationInfo[Any]) -> float:
    setting: Setting = info.context
    if setting.duration_s and seconds >= setting.duration_s:
        raise ValueError(f"{seconds:g}s leave no time for faults in a load of {setting.duration_s:g}s")
    setting.quiet_s = seconds
    return seconds


def moment(seconds: float, info: ValidationInfo[Any]) -> float:
    info.context.check_moment(seconds)
    return seconds


def workload(given: Any, inner: ValidatorFunctionWrapHandler, info: ValidationInfo[Any]) -> Use:
    use: Use = inner(given)
    return _unless(((_word(given), text) for text in info.context.check_workload(use)), use)


def fault(given: dict[str, Any], inner: ValidatorFunctionWrapHandler, info: ValidationInfo[Any]) -> Use:
    """``given`` are the words of an entry that are no keys of its own; one of them is the fault's name."""
    if len(given) != 1 or given.keys() & MISPLACED.keys():
        raise mistakes(_not_one_fault(given))
    use: Use = inner(given)
    found = info.context.check_fault(use, info.data.get("on"))
    return _unless(((_word(given) + place, text) for place, text in found), use)


def _not_one_fault(given: dict[str, Any]) -> Iterator[Mistake]:
    faults = plugins.names(PluginKind.FAULT)
    known = (*faults, *plugins.aliases(PluginKind.FAULT))
    unknown = [key for key in given if key not in known]
    for key in unknown:
        hint = nearest(key, (*MISPLACED, "for", "on", *known))
        hint = hint if hint.startswith("did") else nearest(key, faults)
        yield (key,), MISPLACED.get(key, f"unknown key {key!r}; {hint}")
    if not unknown:
        yield (), f"each entry names exactly one fault, got {sorted(given) or 'none'}"


def trigger(value: Any, info: ValidationInfo[Any]) -> Any:
    return _unless(info.context.check_trigger(value.event, value.node), value)


def newcomers(given: Any, inner: ValidatorFunctionWrapHandler, info: ValidationInfo[Any]) -> Any:
    """Nodes that there have not been yet can be named where some fault adds them; else all is read once more without
    them."""
    setting: Setting = info.context
    faults = inner(given)
    needs = [power for spec in faults for step in spec.steps() for power in step.use.build().needs]
    if not setting.named_newcomers or CanAddBrokers in needs:
        return faults
    setting.joining = False
    return inner(given)


def _unless(found: Iterable[Mistake], made: T) -> T:
    if told := list(found):
        raise mistakes(told)
    return made


def _word(given: str | dict[str, Any]) -> tuple[str, ...]:
    """What the file calls a plug-in."""
    return (given if isinstance(given, str) else next(iter(given)),)
