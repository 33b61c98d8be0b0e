"""The cluster of ``--on attach``: which one it is that runs already, and which part of it is which node.

It stands in the experiment::

    attach:
      compose: shop
      nodes: {queue-0: primary, queue-1: backup}
      ports: {queue: 7000, queue-1.queue: 7001}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Strict

from chaos.errors import BadInput
from chaos.experiment.forms import Form, Within
from chaos.plugins import nearest
from chaos.program import Program

Number = Annotated[int, Strict(), Within(range(1, 65_536))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach(Form):
    """``compose``: the name of a Docker Compose project. ``nodes``: which service each node of the driver is, or
    ``SERVICE-NUMBER`` where a service has several containers, or the name of a container; a node that is not named is
    the service of its own name. ``ports``: the number of each port of the nodes, by its name in the driver or by
    ``NODE.PORT``, where the driver leaves it open."""

    compose: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, Number] = field(default_factory=dict)

    def service(self, node: str) -> str:
        return self.nodes.get(node, node)

    def check(self, programs: Mapping[str, Program]) -> None:
        """Raises :class:`BadInput` with all keys that name nothing. ``programs``: of the driver, by node."""
        if not self.compose:
            raise BadInput(
                "--on attach needs the cluster that it attaches to: say `attach: {compose: PROJECT}` in the experiment"
                " (`docker compose ls` lists projects)"
            )
        names = [
            name for node, program in programs.items() for port in program.ports for name in (port, f"{node}.{port}")
        ]
        wrong = [("nodes", "node", name, list(programs)) for name in self.nodes if name not in programs]
        wrong += [("ports", "port", name, list(dict.fromkeys(names))) for name in self.ports if name not in names]
        if wrong:
            raise BadInput(
                *(
                    f"attach, {key}: there is no {what} {name!r}; {nearest(name, known)}"
                    for key, what, name, known in wrong
                )
            )
