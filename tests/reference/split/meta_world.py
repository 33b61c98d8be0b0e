"""Meta nodes in a small world, and those who speak to them: brokers and stores that the test plays."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from chaos.node import NodeSpec
from reference.split import build
from reference.split.meta.node import Meta
from reference.split.view import Cluster
from reference.wire.codes import Request
from reference.wire.command import ONEWAY, Command
from tests.reference.raftnet import World

METAS = ("meta-0", "meta-1", "meta-2")


class MetaWorld(World):
    """Three meta nodes, and name servers where wanted. ``beat`` lets time pass while nodes that live say so."""

    def __init__(self, seed: int = 1, nameservers: int = 0, mutant: str = "", **options: Any) -> None:
        told = {"metas": METAS, "groups": 4, "slices": 2, **options}

        def make(name: str) -> Any:
            role = name.partition("-")[0]
            return lambda: build(NodeSpec(name=name, role=role, package="reference.split", options=told, mutant=mutant))

        viewers = [f"nameserver-{number}" for number in range(nameservers)]
        super().__init__(seed, {name: make(name) for name in (*METAS, *viewers)})
        self.living: dict[str, tuple[str, str]] = {}
        self.run(3000)

    @property
    def leader(self) -> str:
        return next(name for name in METAS if name in self.envs and self.nodes[name].raft.leads_committed)

    @property
    def cluster(self) -> Cluster:
        node: Meta = self.nodes[self.leader]
        return node.state.cluster

    def ask(self, to: str, code: int, body: object = None, source: str = "client", /, **fields: str) -> Command:
        text = b"" if body is None else json.dumps(body).encode()
        self.inbox.clear()
        self.transmit(source, to, Command(code=code, opaque=9, fields=fields, body=text))
        self.run(3000, until=lambda: any(it.opaque == 9 and at == source for _, at, it in self.inbox))
        return next(it for _, at, it in self.inbox if it.opaque == 9 and at == source)

    def register(self, name: str, word: str = "w", zone: str = "") -> int:
        kind = name.partition("-")[0]
        word_field, number = {"broker": ("nonce", "life"), "store": ("word", "disk")}[kind]
        fields = {"node": name, "kind": kind, word_field: word, "zone": zone}
        answer = self.ask(self.leader, Request.META_REGISTER, None, name, **fields)
        assert answer.code == 0, answer.remark
        self.living[name] = (number, answer.fields[number])
        return int(answer.fields[number])

    def beat(self, ms: int) -> None:
        for _ in range(ms // 100):
            for name, (number, value) in self.living.items():
                fields = {"node": name, "kind": name.partition("-")[0], number: value, "wall_ms": "1"}
                for meta in METAS:
                    command = Command(code=Request.META_HEARTBEAT, flags=ONEWAY, fields=fields)
                    self.transmit(name, meta, command)
            self.run(100)

    def die(self, name: str, *, silently: bool = True) -> None:
        del self.living[name]
        if not silently:
            for meta in METAS:
                self.tell_closed(meta, name)

    def topic(self, name: str, queues: int, **fields: str) -> Command:
        return self.ask(self.leader, Request.META_TOPIC, topic=name, queues=str(queues), **fields)

    def report(self, group: int, index: int, voters: list[str], learners: tuple[str, ...] = ()) -> Command:
        node, _, disk = voters[0].partition("#")
        body = {"voters": voters, "learners": list(learners)}
        fields = {"group": str(group), "index": str(index), "node": node, "disk": disk}
        return self.ask(self.leader, Request.META_REPORT, body, node, **fields)

    def owners(self) -> list[tuple[str, int]]:
        return [(self.cluster.owner(number).broker, self.cluster.owner(number).epoch) for number in range(2)]

    def entries(self, kind: str) -> list[Mapping[str, Any]]:
        """What the log has changed, of this kind, each once and in its order."""
        rows = {row["position"]: row["entry"] for _, _, f, row in self.traces if f == "applied"}
        return [row for _, row in sorted(rows.items()) if row.get("kind") == kind]
