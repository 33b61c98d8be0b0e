"""What the faults of a run will ask of its deployment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from chaos.deployment import Demands
from chaos.errors import KernelLacks, MachineError
from chaos.experiment.capabilities import link_actions
from chaos.experiment.model import FaultSpec
from chaos.experiment.targets import CLIENT
from chaos.fault import Fault


def demands_of(specs: Iterable[FaultSpec]) -> Demands:
    """Return what these faults, and those of the sequences that they begin, will use."""
    built = list(_built(specs))
    return Demands(
        powers=frozenset(power for _, fault in built for power in fault.needs),
        link_actions=frozenset(action for step, fault in built for action in _between_nodes(step, fault)),
    )


@contextmanager
def named(specs: Sequence[FaultSpec]) -> Iterator[None]:
    """Raise :class:`MachineError` in the place of a :class:`KernelLacks`: it names the faults that ask for what the
    kernel lacks, in the order of the file."""
    try:
        yield
    except KernelLacks as error:
        asking = [step.name for step, fault in _built(specs) if error.actions & {*_between_nodes(step, fault)}]
        raise MachineError(f"{', '.join(dict.fromkeys(asking))}: {error}") from error


def _built(specs: Iterable[FaultSpec]) -> Iterator[tuple[FaultSpec, Fault]]:
    for spec in specs:
        for step in spec.steps():
            yield step, step.use.build()


def _between_nodes(step: FaultSpec, fault: Fault) -> Sequence[type]:
    """Return what a fault will do to links between nodes (classes of :data:`chaos.effects.links.ACTIONS`)."""
    return () if getattr(step.use.options, "target", "") == CLIENT else link_actions(fault)
