"""The lifecycle where nodes have addresses of their own: kernels rule their links, and their clocks can be set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from chaos.machines import real_links
from chaos.machines.lifecycle.deployment import no_effect_when_lost
from chaos.machines.lifecycle.node_clocks import NodeClocks
from chaos.machines.lifecycle.node_disks import ReadsDisks
from chaos.machines.machine import Fleet
from chaos.machines.real_links import RealLinks


class NetworkDeployment(ReadsDisks):
    """Implements ``ExpectsLinkActions``, ``CanSkewClocks`` and ``ExpectsSkewedClocks`` besides. Clients stand behind a
    proxy in the harness."""

    PROGRAM_LINKS = True
    LINK_ACTIONS = real_links.LINK_ACTIONS
    KERNEL_LINK_ACTIONS = real_links.NETEM_ACTIONS
    CLIENT_LINK_ACTIONS = real_links.CLIENT_LINK_ACTIONS

    def __init__(self, directory: Path, seed: int, fleet: Fleet, links: RealLinks) -> None:
        super().__init__(directory, seed, fleet, links)
        self._real_links = links

    def expect_link_actions(self, actions: frozenset[type]) -> None:
        self._real_links.expect(actions)

    def expect_skewed_clocks(self) -> None:
        self._clocks = NodeClocks(self._fleet.off)

    async def set_clock(self, node: str, *, jump_ns: int = 0, drift_ppm: int = 0) -> Mapping[str, object]:
        assert self._clocks is not None, "said before the start"
        machine, where, opener = self._machine(node), self._real_links.addresses[node], self._real_links.opener
        with no_effect_when_lost():
            shown = await self._clocks.set(machine, node, where, jump_ns=jump_ns, drift_ppm=drift_ppm, opener=opener)
        return {"node": node, **machine.proof, **shown}
