"""How many objects a second a gateway puts into a real store, against the reference system's own object store.

Both are processes. Clients put objects, so many at a time each; the two take turns, so that a busy machine slows both.
The default store is a folder; ``--store`` names another one, whose objects under the benchmark's prefix go afterwards.
``python -m benchmarks.gateway [--json] [--store URL] [--rounds N]``
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median

from benchmarks._common import Figure, parser, percentile, show
from chaos.deployments import process
from chaos.deployments.process import ProcessDeployment
from chaos.driver import ClusterSpec
from chaos.node import NodeSpec
from chaos.tasks import Group
from drivers.reference.real_tier import LIBRARY, RealTier, clear
from reference import codec
from reference.wire.codes import Request, Response
from reference.wire.command import Command

OWN, GATEWAY = "store-0", "store-1"
CLIENTS, DEPTH, ROUNDS, ROUND_S = 4, 8, 5, 2.0
BODY = b"x" * 16_384
REQUEST_S = 10.0
AIM = 200.0


@dataclass(slots=True)
class Bench:
    """``per_s`` and ``latencies_s`` by store: of each round how many puts a second, and of all puts how long."""

    deployment: ProcessDeployment
    tier: RealTier
    rounds: int
    per_s: dict[str, list[float]] = field(default_factory=lambda: {OWN: [], GATEWAY: []})
    latencies_s: dict[str, list[float]] = field(default_factory=lambda: {OWN: [], GATEWAY: []})
    _numbers: Iterator[int] = field(default_factory=count)

    async def main(self) -> int:
        own: Mapping[str, object] = {}
        gateway = self.tier.options(f"stormproof-benchmark-{secrets.token_hex(8)}")
        nodes = [
            NodeSpec(name=OWN, role="objectstore", package="reference", options=own),
            NodeSpec(
                name=GATEWAY, role="objectstore", package="reference", options=gateway, disk=False, outside=LIBRARY
            ),
        ]
        try:
            await self.deployment.start(ClusterSpec(nodes=nodes, codec=codec("")), lambda row: None)
            for _ in range(self.rounds):
                for store in (OWN, GATEWAY):
                    await self._round(store)
            await clear(self.deployment, [GATEWAY])
        finally:
            await self.deployment.stop()
        return 0

    async def _round(self, store: str) -> None:
        loop = asyncio.get_running_loop()
        began_s, before = loop.time(), len(self.latencies_s[store])
        async with Group() as group:
            for client in range(CLIENTS):
                for _ in range(DEPTH):
                    group.start(self._puts(store, f"client-{client}", began_s + ROUND_S))
        made = len(self.latencies_s[store]) - before
        self.per_s[store].append(made / (loop.time() - began_s))

    async def _puts(self, store: str, client: str, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        while (began_s := loop.time()) < until_s:
            put = Command(code=Request.STORE_PUT, fields={"key": f"data/{next(self._numbers):08d}"}, body=BODY)
            answer = await self.deployment.connect(client, store).request(put, REQUEST_S)
            if answer.code != Response.SUCCESS:
                raise RuntimeError(f"{store} answered {answer.code}: {answer.remark}")
            self.latencies_s[store].append(loop.time() - began_s)


def main() -> int:
    arguments = parser("gateway", __doc__)
    arguments.add_argument("--store", help="the URL of the real store (default: a new folder)")
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="(default: %(default)s)")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = given.store or f"file://{folder}/objects"
        tier = RealTier(store=store, single_writer=not given.store)
        deployment = process.create(run_id=Path(folder).name, directory=Path(folder), seed=1)
        bench = Bench(deployment, tier, given.rounds)
        deployment.execute(bench.main())
    ratios = [theirs / own for own, theirs in zip(bench.per_s[OWN], bench.per_s[GATEWAY], strict=True)]
    figures = [
        Figure(name="puts_per_s", value=round(median(bench.per_s[GATEWAY])), unit="", aim=AIM, more_is_better=True),
        Figure(name="p99", value=round(percentile(bench.latencies_s[GATEWAY], 99) * 1e3, 1), unit="ms"),
        Figure(name="own_store_puts_per_s", value=round(median(bench.per_s[OWN])), unit=""),
        Figure(name="gateway_by_own_store", value=round(median(ratios), 2), unit=""),
    ]
    show("gateway", figures, as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
