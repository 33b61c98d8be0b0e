"""Tries on this machine what a run in network namespaces needs: ``python -m chaos.machines.netns.trial`` prints it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chaos.deployment import Outlook
from chaos.errors import ChaosError, MachineError
from chaos.machines import iptables, netem
from chaos.machines.agent import powered_disk
from chaos.machines.netns.namespaces import World
from chaos.shell import clocks

WHAT = "Namespaces"
TRIAL_S = 60.0
_NODES = ("one", "two")


def outlook() -> Outlook:
    """Return what a run in namespaces would find here, tried in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}
    command = [sys.executable, "-P", "-m", __name__]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TRIAL_S, check=False, env=environment)
        return Outlook(what=WHAT, **json.loads(done.stdout))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return Outlook(what=WHAT, ok=False, found="none could be tried", mend=str(error))


def tried() -> dict[str, object]:
    """Make two namespaces and rule the link between them: the fields of an :class:`Outlook`."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            power = _power(Path(folder))
            world = World(Path(folder) / "lock")
            world.add(_NODES)
            lacking = "".join(f"; {what}" for what in (*_lacking(world), *power))
    except ChaosError as error:
        return {"ok": False, "found": "none for `--on netns`", "mend": str(error)}
    whose = "as root" if os.geteuid() == 0 else "without root"
    return {"ok": True, "found": f"for `--on netns`, {whose}{lacking}"}


def _power(folder: Path) -> list[str]:
    """Return what can't be done here; no thread may have begun yet."""
    try:
        powered_disk.begin(folder)
    except MachineError as error:
        return [f"no file systems on loop devices, so programs can't lose power ({error.__cause__})"]
    return []


def _lacking(world: World) -> Iterator[str]:
    """Yield what can't be done here. Raises :class:`MachineError` when links can't even be cut."""
    node, name = _NODES[0], "trial"
    setup = iptables.setup(iptables.run_chain(name))
    answers = [world.run(node, iptables.restore(flavour), setup) for flavour in iptables.FLAVOURS]
    if all(code for code, _ in answers):
        raise MachineError(
            f"the kernel filters no packets, so links can't be cut ({answers[0][1]}): load its module nf_tables or"
            " ip_tables, or run `--on process`"
        )
    shaping = "".join(f"{line}\n" for line in netem.begin("eth0", netem.major(name)))
    if world.run(node, netem.BATCH, shaping)[0]:
        yield "no netem, so packets between nodes can't be delayed, reordered or corrupted"
    if not clocks.installed():
        yield "no libfaketime, so no faults on clocks"


if __name__ == "__main__":
    print(json.dumps(tried()))
