"""Histories of what controllers tell, for the tests of their law."""

from __future__ import annotations

from typing import Any

from tests.checkers.histories import BROKERS, History

CONTROLLERS = ("controller-0", "controller-1", "controller-2")


class Run(History):
    """With what controllers tell. Entries are told by controller-0 unless a test says otherwise."""

    last = 0

    def entry(
        self, entry: dict[str, Any], *, node: str = "controller-0", number: int = 0, term: int = 1, **besides: Any
    ) -> int:
        self.last = number or self.last + 1
        return self.trace(node, "applied", position=self.last, epoch=term, value={"entry": entry, **besides})

    def elect(self, master: str, epoch: int, *, bootstrap: bool = False, silence_ms: int = 0) -> int:
        told = {"type": "elect", "group": "g", "master": master, "master_epoch": epoch, "bootstrap": bootstrap}
        told |= {"set": [master], "set_epoch": epoch, "previous_set": list(BROKERS)}
        return self.entry(told, **({"silence_ms": silence_ms} if silence_ms else {}))

    def alter(self, *members: str) -> int:
        told = {"type": "alter", "group": "g", "set": list(members), "set_epoch": self.last + 1, "master_epoch": 1}
        return self.entry(told)

    def leads(self, node: str, term: int) -> int:
        return self.trace(node, "raft", epoch=term, value={"role": "leader", "leader": node})

    def members(self, voters: str, learners: str = "", *, node: str = "controller-0") -> None:
        self.entry({"type": "noop"}, node=node)
        told = {
            kind: [CONTROLLERS[int(n)] for n in names] for kind, names in (("voters", voters), ("learners", learners))
        }
        self.trace(node, "members", position=self.last, epoch=1, value=told)

    def in_vain(self, times: int = 1) -> None:
        for _ in range(times):
            self.entry({"type": "none", "op": "elect", "group": "g", "code": 2008, "by": "controllers"})

    def ask(self, f: str, node: str = "controller-0", *, type: str = "ok", took_s: float = 0.01, **told: Any) -> None:
        asked = self.invoke(f, value={"object": "o", "to": node})
        self.wait(took_s)
        self.complete(asked, type, node=node, value=told)


def run(**meta: Any) -> Run:
    """A master was elected, and a leader; then the load began."""
    it = Run(meta={"controllers": list(CONTROLLERS), "uses": ["objects"], **meta})
    it.leads("controller-0", 1)
    it.elect("broker-0", 1, bootstrap=True)
    it.phase("load")
    it.ask("read")
    it.wait(20)
    return it


def death(it: Run, *targets: str, elected_after_s: float = 0, name: str = "kill") -> None:
    """A master dies (``targets``: who dies with it), and somebody is elected in its place."""
    it.inject(name, "broker-0", *targets)
    if elected_after_s:
        it.wait(elected_after_s)
        it.elect("broker-1", 2)
    it.wait(3)
    it.phase("heal")
