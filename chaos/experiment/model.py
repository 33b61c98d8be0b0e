"""The experiment: which system, which load, which faults, for how long. ``chaos.experiment.reader`` reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from chaos.driver import Profile
from chaos.experiment.inventory import Inventory
from chaos.plugins import PluginKind, build


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How long the system may take: to serve again while a fault lasts, to recover after the heal, to be drained."""

    available_s: float = 10.0
    recover_s: float = 30.0
    drain_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A plug-in with its validated options (an instance of its options dataclass)."""

    kind: PluginKind
    name: str
    options: Any

    def build(self) -> Any:
        return build(self.kind, self.name, self.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Fire on the trace event ``event`` of ``node`` (a name, ``master``, ``slave`` or ``any``): pass over the first
    ``skip`` such events, then fire on each of the next ``times``."""

    event: str
    node: str = "any"
    skip: int = 0
    times: int = field(default=1, metadata={"within": range(1, 100_001)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a fault strikes: exactly one of the four is set. Times in seconds since the load began.

    ``at_s``: at these moments. ``every_s``: at this and each further multiple of it. ``mean_s``: at random moments
    drawn from the run's seed, that far apart on average. ``when``: on an event of a node's trace.
    """

    at_s: tuple[float, ...] = ()
    every_s: float = 0.0
    mean_s: float = 0.0
    when: Trigger | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """One entry of ``faults``. ``for_s`` = 0: until the end of the load. ``on`` empty: on every deployment.

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
class Experiment:
    """A valid experiment. ``quiet_s``: at the end of the load, so long, no fault lasts. ``source`` is its text as it
    was given."""

    name: str
    system: Use
    profile: Profile = field(default_factory=Profile)
    duration_s: float
    bounds: Bounds = field(default_factory=Bounds)
    workloads: Sequence[Use] = ()
    faults: Sequence[FaultSpec] = ()
    quiet_s: float = 0.0
    hosts: Inventory = ()
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
