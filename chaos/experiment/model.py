"""The grammar of an experiment: which system, which load, which faults, for how long.

Each :class:`chaos.experiment.forms.Form` is a mapping of the file; its fields are the keys. An annotation says how a
value is written, where that isn't how it is kept, and what is checked. Fields are read in their order, so that those
below are checked against what those above say. ``chaos.experiment.reader`` reads files; the JSON Schema is made of the
same classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from random import Random
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Strict,
    Tag,
    WithJsonSchema,
    WrapValidator,
)

from chaos import plugins
from chaos.driver import Profile
from chaos.errors import BadInput
from chaos.experiment import checks
from chaos.experiment.durations import WRITTEN, Duration, Positive, Seconds
from chaos.experiment.forms import LARGEST, Form, Mistake, OneOf, Within, Written, keys
from chaos.experiment.inventory import Hosts, Inventory
from chaos.experiment.options import Options, Plugin, Use
from chaos.plugins import PluginKind

SEQUENCE, EACH, SWARM = "sequence", "each", "swarm"


def law_names() -> tuple[str, ...]:
    """The names of all laws, as verdicts have them; a plug-in that is broken has none."""
    found: list[str] = []
    for plugin in plugins.names(PluginKind.LAW):
        try:
            made = plugins.build(PluginKind.LAW, plugin)
        except BadInput:
            continue
        found += [str(law.name) for law in (made if isinstance(made, Sequence) else [made])]
    return tuple(sorted(found))


def deployments() -> tuple[str, ...]:
    return plugins.names(PluginKind.DEPLOYMENT)


#: Nothing where a list may stand is an empty one.
List = BeforeValidator(lambda given: [] if given is None else given)
NotEmpty = Field(min_length=1)
For = Annotated[Positive, Field(alias="for")]
On = Annotated[tuple[Annotated[str, OneOf("deployment", deployments)], ...], List]
Rest = Annotated[Duration, Field(alias="rest")]
Moment = Annotated[Duration, AfterValidator(checks.moment)]
Moments = Annotated[
    tuple[Moment, ...],
    NotEmpty,
    BeforeValidator(lambda given: given if isinstance(given, list) else [given]),
    WithJsonSchema({"anyOf": [WRITTEN, {"type": "array", "items": WRITTEN, "minItems": 1}]}),
]
FaultUse = Annotated[Use, Plugin(PluginKind.FAULT, bare=False), WrapValidator(checks.fault)]
Count = Annotated[int, Strict(), Within(range(LARGEST))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds(Form):
    """How long the system may take: to serve again while a fault lasts, to recover after the heal, to be drained."""

    available_s: Seconds = 10.0
    recover_s: Seconds = 30.0
    drain_s: Seconds = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(Form):
    """Fire on the trace event ``event`` of ``node`` (a name, ``master``, ``slave`` or ``any``): ignore the first
    ``skip`` such events, then fire on each of the next ``times``."""

    event: str
    node: str = "any"
    skip: Count = 0
    times: Annotated[int, Strict(), Within(range(1, 100_001))] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps(Form):
    """Random times from the seed, with this mean gap."""

    mean_s: Annotated[Positive, Field(alias="mean")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Form):
    """When a fault strikes: exactly one of the four is set. Times in seconds since the load began.

    ``at_s``: at these moments. ``every_s``: at this and each further multiple of it. ``mean_s``: at random times from
    the run's seed, with this mean gap. ``when``: on an event of a node's trace.
    """

    at_s: Annotated[Moments, Field(alias="at")] = ()
    every_s: Annotated[Positive, AfterValidator(checks.moment), Field(alias="every")] = 0.0
    mean_s: Annotated[float, Written(Gaps, attrgetter("mean_s")), Field(alias="random")] = 0.0
    when: Annotated[Trigger | None, Written(Trigger), AfterValidator(checks.trigger)] = None

    @classmethod
    def amiss(cls, given: dict[str, Any]) -> list[Mistake]:
        chosen = [key for key in keys(Schedule) if key in given]
        words = f"say when with exactly one of {', '.join(keys(Schedule))}; got {chosen or 'none'}"
        return [] if len(chosen) == 1 else [(tuple(given)[:1], words)]

    @classmethod
    def described(cls, schema: dict[str, Any]) -> None:
        schema["allOf"] = [{"oneOf": [{"required": [key]} for key in keys(Schedule)]}]

    @property
    def schedule(self) -> Schedule:
        return Schedule(**{one.name: getattr(self, one.name) for one in fields(Schedule)})


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One fault of a run. ``for_s`` = 0: until the end of the load. ``on`` empty: on every deployment.

    ``then``: the next step of a sequence, which strikes ``rest_s`` after this one was undone; or, ``in_turn``, the one
    whose turn it is when the schedule strikes the next time. ``swarm``: the number of the group of which each seed
    draws its own part, -1 for none.
    """

    use: Use
    schedule: Schedule
    for_s: float = 0.0
    on: tuple[str, ...] = ()
    rest_s: float = 0.0
    then: FaultSpec | None = None
    in_turn: bool = False
    swarm: int = -1

    @property
    def name(self) -> str:
        return self.use.name

    def holds_on(self, deployment: str) -> bool:
        return not self.on or deployment in self.on

    def steps(self) -> Iterator[FaultSpec]:
        """This fault, and those of the sequence that it begins."""
        step: FaultSpec | None = self
        while step is not None:
            yield step
            step = step.then

    def on_this(self, deployment: str) -> FaultSpec | None:
        """The sequence without the steps that are left out on this deployment; None when nothing is left."""
        rest = self.then.on_this(deployment) if self.then else None
        if self.holds_on(deployment):
            return self if rest is self.then else replace(self, then=rest)
        return replace(rest, schedule=self.schedule, in_turn=self.in_turn, swarm=self.swarm) if rest else None

    def stretched(self, factor: float) -> FaultSpec:
        """The same, ``factor`` times as rare and as long."""
        schedule = replace(
            self.schedule, every_s=self.schedule.every_s * factor, mean_s=self.schedule.mean_s * factor
        )  # fmt: skip
        then = self.then.stretched(factor) if self.then else None
        return replace(self, schedule=schedule, for_s=self.for_s * factor, rest_s=self.rest_s * factor, then=then)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(Form):
    """A fault that strikes when its turn comes. ``for`` is how long it lasts; without it, until the load ends.
    Elsewhere than ``on`` it is left out."""

    OTHERS = "use"
    on: On = ()
    for_s: For = 0.0
    use: FaultUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Turn):
    """A fault that strikes ``rest`` after the one before it was undone."""

    rest_s: Rest = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultEntry(Schedule):
    """One fault. ``for`` is how long it lasts; without it, until the load ends. Elsewhere than ``on`` it is left
    out."""

    OTHERS = "use"
    on: On = ()
    for_s: For = 0.0
    use: FaultUse

    def specs(self) -> list[FaultSpec]:
        return [FaultSpec(use=self.use, schedule=self.schedule, for_s=self.for_s, on=self.on)]


@dataclass(frozen=True, slots=True, kw_only=True)
class EachEntry(Schedule):
    """For each of several faults in turn: the schedule strikes with one, the next time with the next one. ``for`` and
    ``on`` hold for each without its own."""

    on: On = ()
    for_s: For = 0.0
    each: Annotated[tuple[Turn, ...], NotEmpty, List]

    @classmethod
    def arranged(cls, given: dict[str, Any]) -> dict[str, Any]:
        return _handed_down(given, EACH, "for", "on")

    def specs(self) -> list[FaultSpec]:
        return [replace(_chain(self.schedule, self.each), in_turn=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceEntry(Schedule):
    """Faults one after another, whenever the schedule strikes. ``for``, ``rest`` and ``on`` hold for each step without
    its own."""

    on: On = ()
    for_s: For = 0.0
    rest_s: Rest = 0.0
    sequence: Annotated[tuple[Step, ...], NotEmpty, List]

    @classmethod
    def arranged(cls, given: dict[str, Any]) -> dict[str, Any]:
        return _handed_down(given, SEQUENCE, "for", "rest", "on")

    def specs(self) -> list[FaultSpec]:
        return [_chain(self.schedule, self.sequence)]


def _handed_down(given: dict[str, Any], key: str, *common: str) -> dict[str, Any]:
    """The entry, each of whose steps has what the entry says for all."""
    shared = {word: given[word] for word in common if word in given}
    steps = given.get(key)
    if not isinstance(steps, list):
        return given
    named = [{step: None} if isinstance(step, str) else step for step in steps]
    return {**given, key: [{**shared, **step} if isinstance(step, dict) else step for step in named]}


def _chain(schedule: Schedule, steps: Sequence[Turn]) -> FaultSpec:
    then: FaultSpec | None = None
    for step in reversed(steps):
        rest_s = step.rest_s if isinstance(step, Step) else 0.0
        then = FaultSpec(use=step.use, schedule=schedule, for_s=step.for_s, on=step.on, rest_s=rest_s, then=then)
    assert then is not None
    return then


def _kind(entry: object) -> str:
    """Which kind of entry it is, by the key that shows it; what is no other is one fault."""
    return next((f"{word} entry" for word in (SWARM, SEQUENCE, EACH) if isinstance(entry, dict) and word in entry), ONE)


def _kind_in_swarm(entry: object) -> str:
    kind = _kind(entry)
    return ONE if kind == "swarm entry" else kind


ONE = "fault entry"
_Entries = (
    Annotated[FaultEntry, Tag(ONE)]
    | Annotated[SequenceEntry, Tag("sequence entry")]
    | Annotated[EachEntry, Tag("each entry")]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmEntry(Form):
    """Each seed draws some of these faults, at least one."""

    swarm: Annotated[tuple[Annotated[_Entries, Discriminator(_kind_in_swarm)], ...], NotEmpty, List]

    def specs(self) -> list[FaultSpec]:
        return [spec for entry in self.swarm for spec in entry.specs()]


Entry = Annotated[_Entries | Annotated[SwarmEntry, Tag("swarm entry")], Discriminator(_kind)]


def _specs(entries: Sequence[Any]) -> tuple[FaultSpec, ...]:
    """All faults, in the order of the file; those of each swarm have a number of their own, from 1."""
    swarms = [entry for entry in entries if isinstance(entry, SwarmEntry)]
    numbers = {id(swarm): number for number, swarm in enumerate(swarms, 1)}
    return tuple(replace(spec, swarm=numbers.get(id(entry), -1)) for entry in entries for spec in entry.specs())


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Form):
    """What an experiment's file says. ``profile`` is what the system is set up to promise. In the last ``quiet`` of the
    load no fault lasts. ``laws`` must be judged, and can't be passed over; all others are judged as ever."""

    name: Annotated[str, AfterValidator(checks.name)] = ""
    profile: Annotated[Profile, Options()] = checks.AS_IT_IS
    system: Annotated[Use, Plugin(PluginKind.DRIVER), AfterValidator(checks.system)]
    duration_s: Annotated[Positive, AfterValidator(checks.duration), Field(alias="duration")]
    quiet_s: Annotated[Duration, AfterValidator(checks.quiet), Field(alias="quiet")] = 0.0
    bounds: Bounds = field(default_factory=Bounds)
    workloads: Annotated[
        tuple[Annotated[Use, Plugin(PluginKind.WORKLOAD), WrapValidator(checks.workload)], ...], NotEmpty, List
    ]
    faults: Annotated[
        tuple[FaultSpec, ...], Written(tuple[Entry, ...], _specs), List, WrapValidator(checks.newcomers)
    ] = ()
    hosts: Annotated[Inventory, Written(Hosts)] = ()
    laws: Annotated[tuple[Annotated[str, OneOf("law", law_names)], ...], List] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(File):
    """A valid experiment. ``source`` is its text as it was given."""

    source: str = ""

    def faults_on(self, deployment: str, seed: int) -> list[FaultSpec]:
        """The faults that this deployment is to do under this seed, in the order of the file: of a swarm, those that
        the seed draws, at least one, each up to twice as rare and as long as the file says, or up to twice as dense."""
        found = [left for fault in self.faults if (left := fault.on_this(deployment))]
        drawn = [fault for fault in found if fault.swarm < 0]
        for group in sorted({fault.swarm for fault in found} - {-1}):
            rng = Random(f"{seed}/swarm/{group}")
            members = [fault for fault in found if fault.swarm == group]
            some = [fault for fault in members if rng.random() < 0.5] or [rng.choice(members)]
            drawn += [fault.stretched(2 ** rng.uniform(-1, 1)) for fault in some]
        return drawn

    def skipped_on(self, deployment: str) -> list[str]:
        """The names of the faults that the file itself leaves out on this deployment."""
        return sorted({step.name for fault in self.faults for step in fault.steps() if not step.holds_on(deployment)})
