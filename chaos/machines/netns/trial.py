"""Tries on this machine what a run in network namespaces needs: ``python -m chaos.machines.netns.trial`` prints it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from chaos.deployment import CanSkewClocks, Demands, Outlook
from chaos.effects.links import Duplicate, LinkRule
from chaos.errors import ChaosError, MachineError
from chaos.machines import iptables, netem
from chaos.machines.iptables import Endpoint
from chaos.machines.local import power_cuts
from chaos.machines.netns.fleet import check_clocks
from chaos.machines.netns.namespaces import World
from chaos.machines.real_links import no_duplicates
from chaos.machines.traffic_control import no_netem
from chaos.machines.trying import PROBLEM, tried
from chaos.shell import clocks

WHAT = "Namespaces"
_NAME, _NODES = "trial", ("one", "two")
_TWICE = LinkRule(frozenset({_NODES[0]}), frozenset({_NODES[1]}), Duplicate(1, 0))
#: Why the kernel shapes no traffic, and why it sends no packets twice; "" if it does.
_NETEM, _TEE = "netem", "tee"


def outlook() -> Outlook:
    """Return what a run in namespaces would find here."""
    try:
        lacking = "".join(f"; {what}" for what in _lacking())
    except MachineError as error:
        return Outlook(what=WHAT, ok=False, found="none for `--on netns`", mend=str(error))
    whose = "as root" if os.geteuid() == 0 else "without root"
    return Outlook(what=WHAT, ok=True, found=f"for `--on netns`, {whose}{lacking}")


def check(demands: Demands) -> None:
    """Raise :class:`MachineError` where there are no namespaces, or the faults need what lacks in them."""
    found = tried(__name__)
    if found[_NETEM] and demands.link_actions & netem.ACTIONS:
        raise no_netem("this machine", found[_NETEM])
    if found[_TEE] and Duplicate in demands.link_actions:
        raise no_duplicates(found[_TEE])
    if CanSkewClocks in demands.powers:
        check_clocks()


def _lacking() -> Iterator[str]:
    """Yield what can't be done here. Raises :class:`MachineError` when links can't even be cut."""
    found = tried(__name__)
    if found[_NETEM]:
        yield "no netem, so packets between nodes can't be delayed, reordered or corrupted"
    if found[_TEE]:
        yield "no xt_TEE, so they can't be duplicated"
    if not clocks.installed():
        yield "no libfaketime, so no faults on clocks"
    try:
        power_cuts.try_out()
    except MachineError as error:
        yield f"programs can't lose power ({error})"


def _tried() -> dict[str, str]:
    """Make two namespaces and rule the link between them; return what can't be done."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder) / "lock")
            addresses = world.add(_NODES)
            return {_TEE: _duplicate(world, addresses), _NETEM: _shape(world)}
    except ChaosError as error:
        return {PROBLEM: str(error)}


def _duplicate(world: World, addresses: Mapping[str, str]) -> str:
    """Return why packets can't be sent twice; "" if they can. Raises :class:`MachineError` when links can't even be
    cut."""
    stem, said = iptables.run_chain(_NAME), ""
    (place,) = iptables.places(_TWICE, {node: Endpoint(node, addresses[node]) for node in _NODES})
    for flavour in iptables.FLAVOURS:
        code, output = world.run(place.machine, iptables.restore(flavour), iptables.setup(stem))
        if not code:
            rule = iptables.put_up(stem, f"{stem}-1", place, _TWICE.action)
            return _why(*world.run(place.machine, iptables.restore(flavour), rule))
        said = said or output
    raise MachineError(
        f"the kernel filters no packets, so links can't be cut ({said}): load its module nf_tables or ip_tables, or run"
        " `--on process`"
    )


def _shape(world: World) -> str:
    """Return why traffic can't be shaped; "" if it can."""
    lines = netem.begin("eth0", netem.major(_NAME))
    return _why(*world.run(_NODES[0], netem.BATCH, "".join(f"{line}\n" for line in lines)))


def _why(code: int, output: str) -> str:
    """Return the first words of a tool that failed; "" for one that didn't."""
    return output.partition("\n")[0] or f"exit code {code}" if code else ""


if __name__ == "__main__":
    print(json.dumps(_tried()))
