"""Tries on this machine what a run in network namespaces needs: ``python -m chaos.machines.netns.trial`` prints it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chaos.deployment import CanSkewClocks, Demands, Outlook
from chaos.errors import ChaosError, MachineError
from chaos.machines import iptables, netem
from chaos.machines.local import power_cuts
from chaos.machines.netns.fleet import check_clocks
from chaos.machines.netns.namespaces import World
from chaos.machines.traffic_control import no_netem
from chaos.machines.trying import PROBLEM, tried
from chaos.shell import clocks

WHAT = "Namespaces"
_NODES = ("one", "two")
#: Why the kernel shapes no traffic; "" if it does.
_NETEM = "netem"


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
    if CanSkewClocks in demands.powers:
        check_clocks()


def _lacking() -> Iterator[str]:
    """Yield what can't be done here. Raises :class:`MachineError` when links can't even be cut."""
    if tried(__name__)[_NETEM]:
        yield "no netem, so packets between nodes can't be delayed, reordered or corrupted"
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
            world.add(_NODES)
            return {_NETEM: _shape(world)}
    except ChaosError as error:
        return {PROBLEM: str(error)}


def _shape(world: World) -> str:
    """Return the first words of the kernel when it can't shape traffic. Raises :class:`MachineError` when links can't
    even be cut."""
    node, name = _NODES[0], "trial"
    setup = iptables.setup(iptables.run_chain(name))
    answers = [world.run(node, iptables.restore(flavour), setup) for flavour in iptables.FLAVOURS]
    if all(code for code, _ in answers):
        raise MachineError(
            f"the kernel filters no packets, so links can't be cut ({answers[0][1]}): load its module nf_tables or"
            " ip_tables, or run `--on process`"
        )
    shaping = "".join(f"{line}\n" for line in netem.begin("eth0", netem.major(name)))
    code, output = world.run(node, netem.BATCH, shaping)
    return output.partition("\n")[0] or "tc says nothing" if code else ""


if __name__ == "__main__":
    print(json.dumps(_tried()))
