"""A whole split cluster in a small world: all its nodes, and a client of it."""

from __future__ import annotations

from typing import Any

from chaos.node import NodeSpec
from reference.split import build
from reference.wire.codes import Request
from reference.wire.command import Command
from tests.reference.raftnet import World

ROLES = {"meta": "meta", "store": "store", "broker": "broker", "tier": "objectstore", "nameserver": "nameserver"}
GROUPS, SLICES, BROKERS, STORES = 4, 2, ("broker-0", "broker-1"), ("store-0", "store-1", "store-2")


class WholeWorld(World):
    """Three meta nodes, three stores and two brokers, with a topic ``t`` of eight queues: four in each slice."""

    def __init__(self, seed: int = 1, **options: Any) -> None:
        metas = ["meta-0", "meta-1", "meta-2"]
        told = {"metas": metas, "groups": GROUPS, "slices": SLICES, "objectstore": "tier-0", **options}

        def make(name: str) -> Any:
            role = ROLES[name.partition("-")[0]]
            spec = NodeSpec(name=name, role=role, package="reference.split", options=told)
            return lambda: build(spec)

        super().__init__(seed, {name: make(name) for name in (*metas, *STORES, *BROKERS, "tier-0", "nameserver-0")})
        self._requests = 0
        made = self.ask(self.owner(0), Request.UPDATE_AND_CREATE_TOPIC, topic="t", writeQueueNums=8)
        assert made is not None and made.code == 0

    def owner(self, number: int, but: str = "") -> str:
        """Wait for an open slice; return who serves it."""

        def serving() -> list[str]:
            slices = {name: self.nodes[name].slices.owned.get(number) for name in BROKERS if name in self.envs}
            return [name for name, one in slices.items() if one is not None and one.is_open and name != but]

        self.run(10_000, until=lambda: bool(serving()))
        return serving()[0]

    @property
    def meta_leader(self) -> str:
        """Return the meta node that leads."""
        nodes = [name for name in self.envs if name.startswith("meta")]
        return next(name for name in nodes if self.nodes[name].raft.leads_committed)

    def leader(self, group: int) -> str:
        """Return the store that leads a group."""
        nodes = [name for name in STORES if name in self.envs]
        return next(name for name in nodes if self.nodes[name].groups.host.member(group).is_leader)

    def ask(self, to: str, code: int, body: bytes = b"", **fields: object) -> Command | None:
        """Ask a node as a client; return its answer, or None when there is none for five seconds."""
        self._requests += 1
        number, texts = self._requests, {key: str(value) for key, value in fields.items()}
        self.inbox.clear()
        self.transmit("client", to, Command(code=code, opaque=number, fields=texts, body=body))
        self.run(5000, until=lambda: any(it.opaque == number for _, to, it in self.inbox if to == "client"))
        return next((it for _, to, it in self.inbox if to == "client" and it.opaque == number), None)

    def send(self, to: str, body: bytes, number: int = 0, queue: int = 0) -> Command:
        fields = {"b": "t", "e": queue, "f": 0, "g": 0, "h": 0, "i": "", "n": f"slice-{number}"}
        answer = self.ask(to, Request.SEND_MESSAGE_V2, body, **fields)
        assert answer is not None
        return answer

    def of_queue(self, to: str, code: int, number: int = 0, queue: int = 0, **fields: object) -> Command:
        answer = self.ask(to, code, **{"topic": "t", "queueId": queue, "bname": f"slice-{number}", **fields})
        assert answer is not None
        return answer

    def pull(self, to: str, offset: int, number: int = 0, queue: int = 0, **fields: object) -> Command:
        limits = {"queueOffset": offset, "maxMsgNums": 32, "sysFlag": 0}
        return self.of_queue(to, Request.PULL_MESSAGE, number, queue, **limits, **fields)
