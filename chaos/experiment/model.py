"""The grammar of an experiment: which system, which load, which faults, for how long.

Each :class:`chaos.experiment.forms.Form` is a mapping of the file; its fields are the keys. An annotation says how a
value is written, where that isn't how it is kept, and what is checked. Fields are read in their order, so that those
below are checked against what those above say. ``chaos.experiment.reader`` reads files; the JSON Schema is made of the
same classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from random import Random
from typing import Annotated, Any, ClassVar

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
from chaos.draws import MOST_SEED
from chaos.driver import Profile
from chaos.experiment import checks
from chaos.experiment.attached import Attach
from chaos.experiment.durations import WRITTEN, Duration, Positive, Seconds
from chaos.experiment.forms import LARGEST, Filled, Form, Listed, Mistake, OneOf, Within, Written
from chaos.experiment.inventory import Hosts, Inventory
from chaos.experiment.options import Plugin, PluginUse
from chaos.experiment.profiles import Promised, Promises
from chaos.experiment.waivers import Waive, each_once
from chaos.plugins import PluginKind, spoken, unspoken

#: Where the file of an experiment may say that it is run; the first, if it says nothing.
REPLAYED_ON = ("process", "sim")
#: The keys that say when a fault fires.
WHEN = ("at", "every", "random", "when", "after")


def law_names() -> tuple[str, ...]:
    """Return the names of all laws, as verdicts have them; a plug-in that is broken has none."""
    found: set[str] = set()
    for plugin in plugins.names(PluginKind.LAW):
        try:
            made = plugins.build(PluginKind.LAW, plugin)
            found |= {str(law.promise.name) for law in (made if isinstance(made, Sequence) else [made])}
        except Exception:  # a foreign file may raise anything at all; its law has no name here, and is judged UNKNOWN
            continue
    return tuple(sorted(found))


def fault_names() -> tuple[str, ...]:
    return (*plugins.names(PluginKind.FAULT), *plugins.aliases(PluginKind.FAULT))


def goal_names() -> tuple[str, ...]:
    return tuple(map(spoken, plugins.names(PluginKind.GOAL)))


#: How a list of links is written.
LINKS = {"type": "array", "items": {"type": "string"}}
On = Listed[Annotated[str, OneOf("deployment", partial(plugins.names, PluginKind.DEPLOYMENT))]]
Whole = Annotated[int, Strict()]
Moment = Annotated[Duration, AfterValidator(checks.moment)]
Period = Annotated[Positive, AfterValidator(checks.period), AfterValidator(checks.moment)]
FaultName = Annotated[
    str, AfterValidator(lambda name: plugins.resolve(PluginKind.FAULT, name).plugin), OneOf("fault", fault_names)
]
GoalName = Annotated[str, AfterValidator(lambda name: spoken(unspoken(name))), OneOf("goal", goal_names)]
#: One, or a list.
Moments = Annotated[
    Filled[Moment],
    BeforeValidator(lambda given: given if isinstance(given, list) else [given]),
    WithJsonSchema({"anyOf": [WRITTEN, {"type": "array", "items": WRITTEN, "minItems": 1}]}),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds(Form):
    """How long the system may take: to serve again while a fault lasts, to recover after the heal, to be drained, to
    let everybody know of a new master, topic or change, to remove what its tier does not need any more (in virtual
    time; four times as long elsewhere), to go on uploading to its tier after it has recovered."""

    available_s: Seconds = 10.0
    recover_s: Seconds = 30.0
    drain_s: Seconds = 60.0
    route_s: Seconds = 5.0
    collect_s: Seconds = 5.0
    upload_s: Seconds = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation(Form):
    """What the simulator draws where reality decides elsewhere: each message takes up to ``jitter_s`` longer than its
    link's constant latency, which is drawn too. ``drawn_links``: it does so on these links alone; on all others
    each message takes the same time, so that what was sent first arrives first. ``a>b`` is the link from the node a to
    the node b, ``a`` stands for all links from a, ``client`` for any client; None: all links."""

    jitter_s: Seconds = 0.0004
    drawn_links: Annotated[tuple[Annotated[str, AfterValidator(checks.link)], ...] | None, WithJsonSchema(LINKS)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay(Form):
    """What ``stormproof run`` does with the file unless it is told otherwise: where, with which seed, and with which
    planted bug. A file may come from elsewhere, so no other places can be named: hosts and clusters that run already
    are the user's to choose."""

    on: Annotated[str, OneOf("deployment for a replay", lambda: REPLAYED_ON)] = REPLAYED_ON[0]
    seed: Annotated[Whole, Within(range(MOST_SEED + 1))] = 0
    bug: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger(Form):
    """Fire on the trace event ``event`` of ``node`` (a name, ``master``, ``slave`` or ``any``): ignore the first
    ``skip`` such events, then fire on each of the next ``times``, ``delay`` after it; those that come sooner than
    ``gap`` after it fired don't count. With the event ``drawn`` each seed draws one of those that nodes trace, and
    ``skip`` and ``delay`` up to what is said."""

    event: str
    node: str = "any"
    skip: Annotated[Whole, Within(range(LARGEST))] = 0
    times: Annotated[Whole, Within(range(1, 100_001))] = 1
    gap_s: Annotated[Duration, Field(alias="gap")] = 0.0
    delay_s: Annotated[Duration, Field(alias="delay")] = 0.0

    def drawn(self, events: Sequence[str], rng: Random) -> Trigger:
        """Of ``drawn`` events, the one of this seed. Some come a thousand times as often as others, so all sizes of
        ``skip`` are as likely."""
        if self.event != checks.DRAWN:
            return self
        event, size = rng.choice(events), rng.random()
        skip = int((self.skip + 1) ** size) - 1
        return replace(self, event=event, skip=skip, delay_s=round(self.delay_s * rng.random(), 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class After(Form):
    """Fire ``delay`` after each time that another entry's fault of this name (its own, or another one of its names)
    took effect."""

    fault: FaultName
    delay_s: Annotated[Moment, Field(alias="delay")] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps(Form):
    """Random times from the seed, with this mean gap."""

    mean_s: Annotated[Positive, AfterValidator(checks.period), Field(alias="mean")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Form):
    """When a fault fires: exactly one of these is set. Times in seconds since the load began.

    ``at_s``: at these moments. ``every_s``: at this and each further multiple of it. ``mean_s``: at random times from
    the run's seed, with this mean gap. ``when``: on an event of a node's trace. ``after``: when another fault has taken
    effect.
    """

    at_s: Annotated[tuple[float, ...], Written(Moments), Field(alias="at")] = ()
    every_s: Annotated[float, Written(Period), Field(alias="every")] = 0.0
    mean_s: Annotated[float, Written(Gaps, attrgetter("mean_s")), Field(alias="random")] = 0.0
    when: Annotated[Trigger | None, Written(Trigger), AfterValidator(checks.trigger)] = None
    after: Annotated[After | None, Written(After)] = None

    @classmethod
    def problems(cls, given: dict[str, Any]) -> list[Mistake]:
        chosen = [key for key in WHEN if key in given]
        words = f"say when with exactly one of {', '.join(WHEN)}; got {chosen or 'none'}"
        return [] if len(chosen) == 1 else [(tuple(given.get("use", ()))[:1], words)]

    @classmethod
    def described(cls, schema: dict[str, Any]) -> None:
        super(Schedule, cls).described(schema)
        schema["oneOf"] = [{"required": [key]} for key in WHEN]

    def most_moments(self, duration_s: float) -> int:
        """How often this fires in a load of this length; of random times, the number to be expected. For what waits
        for other faults see :mod:`chaos.experiment.waits`."""
        if self.when is not None:
            return self.when.times
        gap_s = self.every_s or (max(checks.LEAST_GAP_S, self.mean_s) if self.mean_s else math.inf)
        return len(self.at_s) or math.ceil(min(duration_s / gap_s, LARGEST))

    @property
    def schedule(self) -> Schedule:
        return Schedule(at_s=self.at_s, every_s=self.every_s, mean_s=self.mean_s, when=self.when, after=self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anew:
    """What has not fired at ``since_s`` seconds of the load fires at other times, which this seed draws."""

    since_s: float
    seed: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One fault of a run. ``for_s`` = 0: until the end of the load. ``on`` empty: on every deployment.

    ``then``: the next step of a sequence, which fires ``rest_s`` after this one was undone, unless it has an
    ``after_s``: then so long after this one took effect; or, ``in_turn``, the one whose turn it is when the schedule
    fires the next time. ``swarm``: the number of the group of which each seed draws its own part, -1 for none.
    ``draws``: whose random choices it makes, "" for its own. ``anew``: of a run that goes on from a moment in another
    way (no file says that).
    """

    use: PluginUse
    schedule: Schedule
    for_s: float = 0.0
    on: tuple[str, ...] = ()
    rest_s: float = 0.0
    after_s: float | None = None
    then: FaultSpec | None = None
    in_turn: bool = False
    swarm: int = -1
    draws: str = ""
    anew: Anew | None = None

    @property
    def name(self) -> str:
        return self.use.name

    def holds_on(self, deployment: str) -> bool:
        return not self.on or deployment in self.on

    def steps(self) -> Iterator[FaultSpec]:
        """Yield this fault, and those of the sequence that it begins."""
        step: FaultSpec | None = self
        while step is not None:
            yield step
            step = step.then

    def with_event(self, trigger: Trigger) -> FaultSpec:
        """Return the same, on this event."""
        then = self.then.with_event(trigger) if self.then else None
        return replace(self, schedule=replace(self.schedule, when=trigger), then=then)

    def on_this(self, deployment: str) -> FaultSpec | None:
        """Return the sequence without the steps that are left out on this deployment; None when nothing is left."""
        rest = self.then.on_this(deployment) if self.then else None
        if self.holds_on(deployment):
            return self if rest is self.then else replace(self, then=rest)
        if rest is None:
            return None
        return replace(
            rest, schedule=self.schedule, in_turn=self.in_turn, swarm=self.swarm, anew=self.anew, after_s=None
        )

    def stretched(self, factor: float) -> FaultSpec:
        """Return the same, ``factor`` times as rare and as long; a period stays one that a file could have."""
        every_s = self.schedule.every_s and max(checks.LEAST_PERIOD_S, self.schedule.every_s * factor)
        schedule = replace(self.schedule, every_s=every_s, mean_s=self.schedule.mean_s * factor)
        then = self.then.stretched(factor) if self.then else None
        rest_s, after_s = self.rest_s * factor, None if self.after_s is None else self.after_s * factor
        return replace(self, schedule=schedule, for_s=self.for_s * factor, rest_s=rest_s, after_s=after_s, then=then)


@dataclass(frozen=True, kw_only=True)
class Lasting(Form):
    """``for`` is how long a fault lasts; without it, until the load ends. Elsewhere than ``on`` it is left out."""

    on: On = ()
    for_s: Annotated[Positive, Field(alias="for")] = 0.0


@dataclass(frozen=True, kw_only=True)
class Named(Lasting):
    """A fault by its name, which is the one key that isn't a field's. ``draws`` pins its random choices: "3" stands for
    those of the fault 3 of the seed's run, counted from 0, wherever it stands now, and "3/1" for those of its second
    time alone."""

    OWN: ClassVar[tuple[str, ...]] = (*WHEN, "for", "on", "draws")
    draws: Annotated[str, AfterValidator(checks.draws)] = ""
    use: Annotated[PluginUse, Plugin(PluginKind.FAULT, bare=False), WrapValidator(checks.fault)]

    @classmethod
    def arranged(cls, given: Any) -> Any:
        if not isinstance(given, dict | str):
            return given
        words = {given: None} if isinstance(given, str) else given
        own = {key: value for key, value in words.items() if key in cls.OWN}
        return {**own, "use": {key: value for key, value in words.items() if key not in own}}

    @classmethod
    def described(cls, schema: dict[str, Any]) -> None:
        if use := schema["properties"].pop("use", None):
            schema["properties"] = {**use["properties"], **schema["properties"]}
            schema["required"] = []
            schema["allOf"] = [{"oneOf": [{"required": [name]} for name in use["properties"]]}]


@dataclass(frozen=True, kw_only=True)
class Step(Named):
    """A fault that fires when its turn comes; in a sequence, ``rest`` after the one before it was undone, or ``after``
    so long since that one took effect, whether or not it still lasts."""

    #: What an entry may say for all its steps, and what each says for itself.
    SHARED = ("for", "on", "rest", "draws")
    OWN = (*SHARED, "after")
    rest_s: Annotated[Duration, Field(alias="rest")] = 0.0
    after_s: Annotated[float | None, Written(Duration), Field(alias="after")] = None


@dataclass(frozen=True, kw_only=True)
class FaultEntry(Schedule, Named):
    """One fault."""

    def specs(self) -> list[FaultSpec]:
        return [FaultSpec(use=self.use, schedule=self.schedule, for_s=self.for_s, on=self.on, draws=self.draws)]


@dataclass(frozen=True, kw_only=True)
class Several(Schedule, Lasting):
    """What is said here of ``for``, ``rest`` and ``on`` holds for each step without its own."""

    STEPS: ClassVar[str]

    @classmethod
    def arranged(cls, given: Any) -> Any:
        common = {key: given[key] for key in Step.SHARED if key in given}
        steps = given[cls.STEPS] if isinstance(given[cls.STEPS], list) else []
        named = [{step: None} if isinstance(step, str) else step for step in steps]
        whole = [{**common, **step} if isinstance(step, dict) else step for step in named]
        return {**given, cls.STEPS: whole or given[cls.STEPS]}

    @classmethod
    def described(cls, schema: dict[str, Any]) -> None:
        super().described(schema)
        steps = schema["properties"][cls.STEPS]
        steps["items"] = {"anyOf": [{"enum": sorted(fault_names())}, steps["items"]]}

    def specs(self) -> list[FaultSpec]:
        then: FaultSpec | None = None
        for step in reversed(getattr(self, self.STEPS)):
            one = FaultSpec(use=step.use, schedule=self.schedule, for_s=step.for_s, on=step.on, rest_s=step.rest_s)
            then = replace(one, after_s=step.after_s, then=then, draws=step.draws)
        return [then] if then else []


@dataclass(frozen=True, kw_only=True)
class SequenceEntry(Several):
    """Faults one after another, whenever the schedule fires."""

    STEPS = "sequence"
    rest_s: Annotated[Duration, Field(alias="rest")] = 0.0
    sequence: Annotated[Filled[Step], AfterValidator(checks.sequence)]


@dataclass(frozen=True, kw_only=True)
class EachEntry(Several):
    """For each of several faults in turn: the schedule fires with one, the next time with the next one."""

    STEPS = "each"
    each: Annotated[Filled[Step], AfterValidator(checks.in_turn)]

    def specs(self) -> list[FaultSpec]:
        return [replace(spec, in_turn=True) for spec in Several.specs(self)]


#: The kinds of entries, by the key that shows each; what has none of these keys is one fault.
KINDS = {"swarm": "a swarm", "sequence": "a sequence", "each": "faults in turn"}
ONE_FAULT = "one fault"


def _kind(entry: object) -> str:
    return next((kind for key, kind in KINDS.items() if isinstance(entry, dict) and key in entry), ONE_FAULT)


def _kind_in_swarm(entry: object) -> str:
    return ONE_FAULT if _kind(entry) == KINDS["swarm"] else _kind(entry)


_Entry = (
    Annotated[FaultEntry, Tag(ONE_FAULT)]
    | Annotated[SequenceEntry, Tag(KINDS["sequence"])]
    | Annotated[EachEntry, Tag(KINDS["each"])]
)


@dataclass(frozen=True, kw_only=True)
class SwarmEntry(Form):
    """Each seed draws some of these faults, at least one."""

    swarm: Filled[Annotated[_Entry, Discriminator(_kind_in_swarm)]]

    def specs(self) -> list[FaultSpec]:
        return [spec for entry in self.swarm for spec in entry.specs()]


Entry = Annotated[_Entry | Annotated[SwarmEntry, Tag(KINDS["swarm"])], Discriminator(_kind)]


def _specs(entries: Sequence[Any]) -> tuple[FaultSpec, ...]:
    """All faults, in the order of the file; those of each swarm have a number of their own, from 1."""
    swarms = [entry for entry in entries if isinstance(entry, SwarmEntry)]
    numbers = {id(swarm): number for number, swarm in enumerate(swarms, 1)}
    return tuple(replace(spec, swarm=numbers.get(id(entry), -1)) for entry in entries for spec in entry.specs())


@dataclass(frozen=True, slots=True, kw_only=True)
class File(Form):
    """What an experiment's file says. ``promises``: what the system is set up to promise. In the last ``quiet`` of the
    load no fault lasts. ``laws`` must be judged, and can't be passed over; all others are judged as ever. ``reach``
    names the goals that the storm is for: a verdict names those that a run did not reach. ``simulation`` concerns the
    simulator alone; ``replay`` is for a file that is to repeat one run. ``min_acked``: with fewer acknowledged messages
    a run is not VALID (None: a tenth of those that the load is to send). ``waive``: violations that it puts up with.
    ``violates``: the laws that its runs are made to break; no verdict depends on it."""

    name: Annotated[str, AfterValidator(checks.name)] = ""
    replay: Replay = field(default_factory=Replay)
    promises: Annotated[Promises, Promised(), Field(alias="profile")] = field(default_factory=Promises)
    system: Annotated[PluginUse, Plugin(PluginKind.DRIVER, draws=True), AfterValidator(checks.system)]
    duration_s: Annotated[Positive, Field(alias="duration")]
    quiet_s: Annotated[Duration, AfterValidator(checks.quiet), Field(alias="quiet")] = 0.0
    bounds: Bounds = field(default_factory=Bounds)
    simulation: Simulation = field(default_factory=Simulation)
    workloads: Filled[Annotated[PluginUse, Plugin(PluginKind.WORKLOAD, draws=True), WrapValidator(checks.workload)]]
    faults: Annotated[tuple[FaultSpec, ...], Written(Listed[Entry], _specs), WrapValidator(checks.faults)] = ()
    hosts: Annotated[Inventory, Written(Hosts)] = ()
    attach: Attach = field(default_factory=Attach)
    laws: Listed[Annotated[str, OneOf("law", law_names)]] = ()
    reach: Listed[GoalName] = ()
    min_acked: Annotated[Whole, Within(range(LARGEST))] | None = None
    waive: Annotated[Listed[Waive], AfterValidator(each_once)] = ()
    violates: Listed[Annotated[str, OneOf("law", law_names)]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(File):
    """A valid experiment. ``profile`` is what its system promises; ``profile_line`` where the text says that, 0 where
    it doesn't, so that it is the driver's own; ``source`` is its text as it was given; ``values`` are those that a seed
    has drawn, ``events`` those that nodes trace, as far as the driver knows."""

    profile: Profile = field(default_factory=Profile)
    profile_line: int = 0
    source: str = ""
    events: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)

    def drawn(self, seed: int) -> Experiment:
        """Return the experiment of this seed: with a value for whatever is drawn of the profile, of the options of the
        system and the workloads, and of the events that faults wait for, the same for the same seed. Raises
        :class:`chaos.errors.BadInput` when what was drawn doesn't go together."""
        system, values = self.system.drawn(seed, "system")
        if self.promises.given:
            profile, found = self.promises.drawn(seed)
        else:
            profile, found = (self.promises.of(system.build()) if values else self.profile), {}
        found = {**found, **{f"system.{name}": value for name, value in values.items()}}
        workloads = []
        for number, use in enumerate(self.workloads):
            one, values = use.drawn(seed, f"workload-{number}")
            workloads.append(one)
            found |= {f"workloads.{number}.{name}": value for name, value in values.items()}
        faults = []
        for number, fault in enumerate(self.faults):
            if (trigger := fault.schedule.when) is not None and trigger.event == checks.DRAWN:
                trigger = trigger.drawn(self.events, Random(f"{seed}/event/{number}"))
                fault = fault.with_event(trigger)
                found |= {f"faults.{number}.event": f"{trigger.event}, after {trigger.skip} of them"}
            faults.append(fault)
        if not found:
            return self
        here, values = replace(self, profile=profile, system=system), {**self.values, **found}
        return replace(here, workloads=tuple(workloads), faults=tuple(faults), values=values)

    def faults_on(self, deployment: str, seed: int) -> list[FaultSpec]:
        """Return the faults that this deployment is to do under this seed, in the order of the file: of a swarm, those
        that the seed draws, at least one, each up to twice as rare and as long as the file says, or up to twice as
        dense."""
        found = [left for fault in self.faults if (left := fault.on_this(deployment))]
        drawn = [fault for fault in found if fault.swarm < 0]
        for group in sorted({fault.swarm for fault in found} - {-1}):
            rng = Random(f"{seed}/swarm/{group}")
            members = [fault for fault in found if fault.swarm == group]
            some = [fault for fault in members if rng.random() < 0.5] or [rng.choice(members)]
            drawn += [fault.stretched(2 ** rng.uniform(-1, 1)) for fault in some]
        return drawn

    def skipped_on(self, deployment: str) -> list[str]:
        """Return the names of the faults that the file itself leaves out on this deployment."""
        return sorted({step.name for fault in self.faults for step in fault.steps() if not step.holds_on(deployment)})
