"""The cluster of ``--on attach``: which one it is that runs already, and which part of it is which node.

It stands in the experiment::

    attach:
      compose: shop
      nodes: {queue-0: primary, queue-1: backup}
      ports: {queue: 7000, queue-1.queue: 7001}

or, for programs on the hosts that the experiment lists as ``hosts``::

    attach:
      nodes: {queue-0: h0, queue-1: h1}
      ports: {queue: 7000}
      programs:
        queue-0: {pid: cat /run/tinyq.pid, start: /etc/init.d/tinyq start}
        queue-1: {pid: systemctl show -P MainPID tinyq, start: systemctl start tinyq}
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, Strict

from chaos.errors import BadInput
from chaos.experiment.forms import Filled, Form, Within
from chaos.plugins import nearest
from chaos.program import Program


def _words(given: Any) -> Any:
    """Return the words of a command that is written as for a shell; none ever sees it."""
    if not isinstance(given, str):
        return given
    try:
        return tuple(shlex.split(given))
    except ValueError as error:
        raise ValueError(f"expected a command, got {given!r} ({error})") from error


Command = Annotated[Filled[str], BeforeValidator(_words)]
Number = Annotated[int, Strict(), Within(range(1, 65_536))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Running(Form):
    """A program that runs on a host. ``pid``: the command that prints the id of its first process. ``start``: the one
    that starts it, and returns. Both are run as root, without a shell."""

    pid: Command
    start: Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach(Form):
    """``compose``: the name of a Docker Compose project. ``nodes``: which service each node of the driver is, or
    ``SERVICE-NUMBER`` where a service has several containers, or the name of a container; a node that is not named is
    the service of its own name. ``ports``: the number of each port of the nodes, by its name in the driver or by
    ``NODE.PORT``, where the driver leaves it open. ``programs``, in the place of ``compose``: the program of each
    node, which runs on the host that ``nodes`` names, else on the one of the node's own name."""

    compose: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[str, Number] = field(default_factory=dict)
    programs: Mapping[str, Running] = field(default_factory=dict)

    def service(self, node: str) -> str:
        return self.nodes.get(node, node)

    def check(self, programs: Mapping[str, Program]) -> None:
        """Check that all keys name something. Raises :class:`BadInput` with those that name nothing. ``programs``: of
        the driver, by node."""
        if not self.compose and not self.programs:
            raise BadInput(
                "--on attach needs the cluster that it attaches to: say `attach: {compose: PROJECT}` in the experiment"
                " (`docker compose ls` lists projects), or the `programs` on its `hosts` (docs/where-to-run.md)"
            )
        if self.compose and self.programs:
            raise BadInput("attach: a cluster is a Compose project (`compose`) or runs on hosts (`programs`), not both")
        names = [
            name for node, program in programs.items() for port in program.ports for name in (port, f"{node}.{port}")
        ]
        wrong = [("nodes", "node", name, list(programs)) for name in self.nodes if name not in programs]
        wrong += [("programs", "node", name, list(programs)) for name in self.programs if name not in programs]
        wrong += [("ports", "port", name, list(dict.fromkeys(names))) for name in self.ports if name not in names]
        if wrong:
            raise BadInput(
                *(
                    f"attach, {key}: there is no {what} {name!r}; {nearest(name, known)}"
                    for key, what, name, known in wrong
                )
            )
