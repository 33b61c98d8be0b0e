"""Which version of its system each node runs: the one in which the run began, or another since it was replaced."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from chaos.errors import DeploymentError
from chaos.node import NodeSpec


class Versions:
    """``specs`` are the deployment's own, of all nodes: a node is started as they say."""

    def __init__(self, specs: MutableMapping[str, NodeSpec]) -> None:
        self._specs = specs
        self._first: dict[str, NodeSpec] = {}
        self._born: dict[str, NodeSpec] = {}

    def replace(self, spec: NodeSpec) -> Mapping[str, object]:
        """Have a node be started as this says from its next life on; what shows it. It keeps its ports, so it must have
        the same: raises :class:`DeploymentError`."""
        now = self._specs[spec.name]
        ports = [list(one.program.ports) if one.program is not None else [] for one in (now, spec)]
        if ports[0] != ports[1] or (now.program is None) != (spec.program is None):
            raise DeploymentError(f"{spec.name} has ports {ports[0]}, and in the other version {ports[1]}")
        self._first.setdefault(spec.name, now)
        self._specs[spec.name] = spec
        return {"node": spec.name, "was": _title(now), "is": _title(spec)}

    def born(self, node: str) -> None:
        """Note that a life of this node begins."""
        self._born[node] = self._specs[node]

    def restore(self, node: str) -> bool:
        """Have a node be started again as it was first; return whether its latest life began otherwise."""
        first = self._first.pop(node, None)
        if first is None:
            return False
        self._specs[node] = first
        return self._born.get(node) is not first

    def replaced(self) -> tuple[str, ...]:
        """Return the nodes whose latest life began otherwise than their first."""
        return tuple(node for node, first in self._first.items() if self._born.get(node) not in (None, first))


def _title(spec: NodeSpec) -> str:
    recipe = spec.program.recipe if spec.program is not None else None
    return recipe.title if recipe is not None else spec.package or "a program"
