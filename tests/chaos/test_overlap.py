"""Faults on links and on nodes that overlap at random: what is seen is at any time what those that last do together."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.driver import ClusterView
from chaos.fault import Fault
from chaos.journal import Journal, pending
from chaos.plugins import PluginKind, load, options_class
from chaos.storm import Storm

TOYS = str(Path(__file__).parents[1] / "deployments")
NODES = tuple(f"echo-{number}" for number in range(5))
VIEW = ClusterView(brokers=NODES, master="echo-0", in_sync=NODES, settled=True)
SHAPES = ("isolate", "one_way", "halves", "apart", "majorities_ring")
STEPS = 14
AT_ONCE = 4


def some_fault(rng: Random) -> tuple[str, Fault]:
    kind = rng.choice(("kill", "pause", "partition", "partition", "partition"))
    options: dict[str, Any] = {"target": rng.choice(("one", "random(2)"))}
    module = load(PluginKind.FAULT, kind)
    cls = options_class(module)
    if kind == "partition":
        options["shape"] = type(cls().shape)(rng.choice(SHAPES))
    return kind, module.create(cls(**options))


def holds(names: list[str], name: str) -> bool:
    return name in names or "*" in names


class Expected:
    """What the injections that last do, told from their plans alone."""

    def __init__(self, lasting: dict[str, list[Any]]) -> None:
        self.down = {node for active in lasting["kill"] for node in active.injection.targets}
        self.still = {node for active in lasting["pause"] for node in active.injection.targets}
        self.cuts = [cut for active in lasting["partition"] for cut in active.injection.detail["cuts"]]

    def reaches(self, source: str, target: str) -> bool:
        ways = ((source, target), (target, source))
        cut = any(holds(cut[0], a) and holds(cut[1], b) for cut in self.cuts for a, b in ways)
        return target not in self.down and not cut


@pytest.mark.parametrize("seed", range(40))
def test_overlapping_faults_on_links_and_nodes_end_independently_in_any_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    monkeypatch.syspath_prepend(TOYS)
    import sim_toys  # type: ignore[import-not-found]

    rng = Random(seed)

    async def script(world: Any) -> None:
        sim = world.sim
        storm = Storm(
            [],
            deployment=sim,
            driver=None,  # type: ignore[arg-type]
            record=lambda kind, **columns: 0,
            journal=Journal(tmp_path, durable=False),
            view=lambda: VIEW,
            seed=seed,
        )
        lasting: dict[str, list[Any]] = {"kill": [], "pause": [], "partition": []}
        for step in range(STEPS):
            active = [(kind, one) for kind, them in lasting.items() for one in them]
            if active and (len(active) == AT_ONCE or rng.random() < 0.4):
                kind, one = rng.choice(active)
                lasting[kind].remove(one)
                await storm._undo(one)
            else:
                kind, fault = some_fault(rng)
                made, _ = await storm._inject(kind, fault, Random(rng.random()))
                lasting[kind] += [made] if made else []
            await look(sim, Expected(lasting), step)
        for kind in sorted(lasting, key=lambda _: rng.random()):
            for one in rng.sample(lasting[kind], len(lasting[kind])):
                lasting[kind].remove(one)
                await storm._undo(one)
                await look(sim, Expected(lasting), STEPS)

    sim_toys.World(sim_toys.cluster(count=len(NODES))).run(script)
    assert pending(tmp_path) == []


async def look(sim: Any, expected: Expected, step: int) -> None:
    for source, target in permutations(NODES, 2):
        assert await sim.reaches(source, target) is expected.reaches(source, target), (step, source, target)
    for node in NODES:
        assert await sim.answers(node) is (node not in expected.down | expected.still), (step, node)
