"""Faults on links and on nodes that overlap at random: what is seen is at any time what those that last do together."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chaos.draws import Draws
from chaos.fault import Fault
from chaos.plugins import PluginKind, load, options_class
from chaos.run.journal import Journal
from chaos.run.nemesis_runner import NemesisRunner
from tests.chaos.deployments import sim_toys
from tests.chaos.run.journals import pending
from tests.views import one_group

NODES = tuple(f"echo-{number}" for number in range(5))
VIEW = one_group(brokers=NODES, master="echo-0", in_sync=NODES, settled=True)
SHAPES = ("isolate", "one_way", "halves", "apart", "majorities_ring")
STEPS = 20
AT_ONCE = 5
#: A probe waits so long for a connection, which goes both ways.
PATIENCE_MS = 500
#: By fault: what it is to do to the links of its targets, besides where they are.
ON_LINKS: dict[str, dict[str, Any]] = {
    "slow_link": {"delay_ms": 130, "jitter_ms": 0},
    "rate_limit": {},
    "reset": {"per_mille": 1000, "period_s": 0.0},
}
KINDS = ("kill", "pause", "partition", *ON_LINKS)


def some_fault(rng: Random) -> tuple[str, Fault]:
    kind = rng.choice((*KINDS, "partition", "partition", "slow_link"))
    options: dict[str, Any] = {"target": rng.choice(("one", "random(2)")), **ON_LINKS.get(kind, {})}
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
        self.slow = [active.injection.targets for active in lasting["slow_link"]]
        self.broken = [active.injection.targets for active in lasting["reset"]]

    def reaches(self, source: str, target: str) -> bool:
        ways = ((source, target), (target, source))
        cut = any(holds(cut[0], a) and holds(cut[1], b) for cut in self.cuts for a, b in ways)
        broken = any(source in targets or target in targets for targets in self.broken)
        late_ms = sum(2 * ON_LINKS["slow_link"]["delay_ms"] for ends in self.slow if source in ends or target in ends)
        return target not in self.down and not cut and not broken and late_ms <= PATIENCE_MS


@pytest.mark.parametrize("seed", range(40))
def test_overlapping_faults_on_links_and_nodes_end_independently_in_any_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    rng = Random(seed)

    async def script(world: Any) -> None:
        sim = world.sim
        faults = NemesisRunner(
            [],
            deployment=sim,
            driver=None,  # type: ignore[arg-type]
            record=lambda kind, **columns: 0,
            journal=Journal(tmp_path, durable=False),
            view=lambda: VIEW,
            draws=Draws(seed),
        ).injector
        lasting: dict[str, list[Any]] = {kind: [] for kind in KINDS}
        for step in range(STEPS):
            active = [(kind, one) for kind, them in lasting.items() for one in them]
            if active and (len(active) == AT_ONCE or rng.random() < 0.4):
                kind, one = rng.choice(active)
                lasting[kind].remove(one)
                await faults.undo(one)
            else:
                kind, fault = some_fault(rng)
                made = await faults.inject(kind, fault, Random(rng.random()))
                lasting[kind] += [made] if made else []
            await look(sim, Expected(lasting), step)
        for kind in sorted(lasting, key=lambda _: rng.random()):
            for one in rng.sample(lasting[kind], len(lasting[kind])):
                lasting[kind].remove(one)
                await faults.undo(one)
                await look(sim, Expected(lasting), STEPS)

    sim_toys.World(sim_toys.cluster(count=len(NODES))).run(script)
    assert pending(tmp_path) == []


async def look(sim: Any, expected: Expected, step: int) -> None:
    for source, target in permutations(NODES, 2):
        assert await sim.reaches(source, target) is expected.reaches(source, target), (step, source, target)
    for node in NODES:
        assert await sim.answers(node) is (node not in expected.down | expected.still), (step, node)
