"""What can't be done to nodes that are programs of others, and what would do instead.

A deployment's class says whether it can hold programs at all (``PROGRAMS``), whether it can rule the links between them
(``PROGRAM_LINKS``), and in ``PROGRAM_LACKS`` what it can't do to them besides what is in :data:`LACKS`, of which it can
do those in ``PROGRAM_POWERS`` all the same. Where ``STARTS`` is False all nodes are programs that run already, so these
are what it can't do at all, with drivers' powers among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress

from chaos.deployment import CanHangIo, CanLoseUnsynced, CanRuleDisks, CanSkewClocks, CanTearWrites
from chaos.errors import BadInput
from chaos.experiment.capabilities import can, deployment_class, link_actions
from chaos.node import NodeSpec
from chaos.plugins import PluginKind, names

_KERNELS = "what it has not synced is the kernel's, and outlives it"
_DISK = "nobody stands between it and its disk", "`kill` with `wipe`, or corruption of its files after a kill"
#: By power: why most deployments don't have it over a program, and what would do.
LACKS: Mapping[type, tuple[str, str]] = {
    CanLoseUnsynced: (_KERNELS, "root's `--on netns` or `--on process`, whose disks can lose their power; or `kill`"),
    CanTearWrites: (_KERNELS, "`lose_unsynced`, or `kill`, which ends it"),
    CanRuleDisks: _DISK,
    CanHangIo: (_DISK[0], "`pause`, or less of a processor"),
    CanSkewClocks: ("it does not report what its clocks show", "no fault on clocks"),
}


def unable(host: type, deployment: str, programs: Sequence[NodeSpec], faulted: str, made: object) -> Iterator[str]:
    """Why a fault can't be done, on this deployment, to the nodes that are programs. ``faulted``: the one node that the
    fault may hit, "" for any."""
    node = next((spec.name for spec in programs if faulted in ("", spec.name)), "")
    if not node:
        return
    own: Mapping[type, tuple[str, str]] = getattr(host, "PROGRAM_LACKS", {})
    here: Set[type] = getattr(host, "PROGRAM_POWERS", frozenset())
    lacks = {**{power: why for power, why in LACKS.items() if power not in here}, **own}
    for power in getattr(made, "needs", ()):
        if power in own or (power in lacks and can(host, power)):
            why, instead = lacks[power]
            yield f"node {node} is a program, to which it can't be done: {why}; what would do: {instead}"
    if link_actions(made) and not getattr(host, "PROGRAM_LINKS", False):
        yield (
            f"node {node} is a program, whose links to other nodes {deployment} can't rule; what would do:"
            f" `--on {'`, `--on '.join(_those('PROGRAM_LINKS'))}`, or `target: client`"
        )


def starts(host: type) -> bool:
    """Return whether this deployment starts nodes; else it finds them running."""
    return bool(getattr(host, "STARTS", True))


def never(host: type) -> frozenset[type]:
    """Return the powers that this deployment has over no node at all."""
    return frozenset() if starts(host) else frozenset({*LACKS, *getattr(host, "PROGRAM_LACKS", {})})


def refusal(host: type, deployment: str, nodes: Sequence[NodeSpec]) -> str:
    """Why this deployment can't hold these nodes at all; "" if it can."""
    programs = [spec for spec in nodes if spec.program is not None]
    if not starts(host) and len(programs) < len(nodes):
        return (
            f"{deployment} takes programs that run already, and node"
            f" {next(spec.name for spec in nodes if spec.program is None)} is a Python package that a deployment hosts;"
            " what would do: a deployment that starts it (`stormproof list deployments`)"
        )
    if not programs or getattr(host, "PROGRAMS", False):
        recipes = [spec.program.recipe for spec in programs if spec.program and spec.program.recipe]
        return next((recipe.problem for recipe in recipes if starts(host) and recipe.problem), "")
    return (
        f"{deployment} runs no programs of others, and node {programs[0].name} is one; what would do:"
        f" `--on {'`, `--on '.join(_those('PROGRAMS'))}`"
    )


def _those(word: str) -> list[str]:
    """Return the deployments that start nodes and whose classes say this."""
    found = []
    for name in names(PluginKind.DEPLOYMENT):
        with suppress(BadInput):  # a broken one of somebody else's
            if starts(host := deployment_class(name)) and getattr(host, word, False):
                found.append(name)
    return found
