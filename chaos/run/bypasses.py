"""Clients that go round the proxies, on which rules on their links hold: noticed, and noted in the history."""

from __future__ import annotations

from contextlib import suppress

from chaos.deployment import CanRuleLinks, CanRuleRequests, Demands, Deployment, SeesBypasses
from chaos.driver import Record
from chaos.errors import DeploymentError

#: The name of such a row of the harness.
F = "bypass"


class Bypasses:
    """Those of one run. None is noted where no fault rules links (``demands``): there is nothing to miss."""

    def __init__(self, deployment: Deployment, record: Record, demands: Demands) -> None:
        self._sees = deployment if demands.powers & {CanRuleLinks, CanRuleRequests} else None
        self._record = record
        self._noted: set[str] = set()

    async def look(self, client: str, pid: int) -> None:
        """Look whom a client that is a program on this machine is connected with."""
        if isinstance(self._sees, SeesBypasses):
            for node, address in (await self._sees.bypassed(pid)).items():
                self._note(
                    f"client {client} has reached {node} at {address}, round the proxies: rules on links miss it"
                )

    async def end(self) -> None:
        """Look which addresses clients were given that are no node's."""
        if not isinstance(self._sees, SeesBypasses):
            return
        with suppress(DeploymentError):  # what keeps it from being asked has ended the run already
            for address in await self._sees.strange_addresses():
                self._note(f"clients were given {address!r}, which is no node's address: rules on links miss it")

    def _note(self, what: str) -> None:
        if what not in self._noted:
            self._noted.add(what)
            self._record("harness", f=F, value={"what": what})
