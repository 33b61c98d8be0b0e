"""The lifecycle where nodes have addresses of their own: kernels rule their links, and their clocks can be set."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from chaos.machines import real_links
from chaos.machines.clock_skew import skewed
from chaos.machines.lifecycle.deployment import MachineDeployment, no_effect_when_lost
from chaos.machines.machine import Fleet
from chaos.machines.real_links import RealLinks
from chaos.shell.clocks import Skew


class NetworkDeployment(MachineDeployment):
    """Implements ``ExpectsLinkActions``, ``CanSkewClocks`` and ``ExpectsSkewedClocks`` besides. Clients stand behind a
    proxy in the harness."""

    LINK_ACTIONS = real_links.LINK_ACTIONS
    KERNEL_LINK_ACTIONS = real_links.NETEM_ACTIONS
    CLIENT_LINK_ACTIONS = real_links.CLIENT_LINK_ACTIONS

    def __init__(self, directory: Path, seed: int, fleet: Fleet, links: RealLinks) -> None:
        super().__init__(directory, seed, fleet, links)
        self._real_links = links

    def expect_link_actions(self, actions: frozenset[type]) -> None:
        self._real_links.expect(actions)

    def expect_skewed_clocks(self) -> None:
        self._clocks = True

    async def set_clock(self, node: str, *, jump_ns: int = 0, drift_ppm: int = 0) -> Mapping[str, object]:
        assert self._clocks, "said before the start"
        machine = self._machine(node)
        async with self._setting[node]:  # each tells its own jump
            skew = self._skews[node] = self._skews.get(node, Skew()).after(jump_ns=jump_ns, drift_ppm=drift_ppm)
            set_clocks = partial(self._off, machine.set_clock, node, skew)
            with no_effect_when_lost():
                shown = await skewed(self._real_links.addresses[node], jump_ns, set_clocks)
        return {"node": node, **machine.proof, **shown}
