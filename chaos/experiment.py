"""The experiment: which system, which load, which faults, for how long. Read from YAML by ``chaos.experiment_file``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.driver import Profile
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
    times: int = 1


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
    """One entry of ``faults``. ``for_s`` = 0: until the end of the load. ``on`` empty: on every deployment."""

    use: Use
    schedule: Schedule
    for_s: float = 0.0
    on: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.use.name

    def holds_on(self, deployment: str) -> bool:
        return not self.on or deployment in self.on


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A valid experiment. ``source`` is its text as it was given."""

    name: str
    system: Use
    profile: Profile = field(default_factory=Profile)
    duration_s: float
    bounds: Bounds = field(default_factory=Bounds)
    workloads: Sequence[Use] = ()
    faults: Sequence[FaultSpec] = ()
    source: str = ""

    def faults_on(self, deployment: str) -> list[FaultSpec]:
        """The faults that this deployment is to do, in the order of the file."""
        return [fault for fault in self.faults if fault.holds_on(deployment)]

    def skipped_on(self, deployment: str) -> list[str]:
        """The names of the faults that the file itself leaves out on this deployment."""
        return sorted({fault.name for fault in self.faults if not fault.holds_on(deployment)})
