"""A fault on clients is proven for those that have felt it, and has no effect where nobody has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from toy_nodes import ECHO

from chaos.deployments.sim import SimDeployment, create
from chaos.effects.links import Delay, Drop, LinkRule
from chaos.experiment.model import Schedule
from chaos.run.runner import run
from tests.chaos.run.test_runner import Rows, ToyDriver, experiment, fault


class Telling(SimDeployment):
    """A simulator that has seen whom its rules hit."""

    hit: frozenset[str] = frozenset()

    async def clients_hit(self, rule_id: str) -> frozenset[str]:
        return self.hit


def undone(directory: Path, hit: frozenset[str] | None) -> list[dict[str, Any]]:
    """The rows of faults of a run in which the deployment has seen that its rules hit these clients; None: it can't
    tell."""
    deployment = create(run_id="toy", directory=directory, seed=1)
    if hit is not None:
        deployment.__class__ = Telling
        deployment.hit = hit  # type: ignore[attr-defined]
    rows = Rows(deployment.now_ns)
    cut = fault("partition", Schedule(at_s=(1.0,)), for_s=2.0, shape="isolate", target="client")
    run(experiment(cut), deployment=deployment, driver=ToyDriver(), directory=directory, seed=1, recorder=rows)
    return [row for row in rows.where(kind="fault", f="partition") if row["type"] == "ok"]


def test_it_is_proven_by_those_that_have_felt_it(tmp_path: Path) -> None:
    injected, ended = undone(tmp_path, frozenset({"producer-0"}))
    assert injected["value"]["proven"] == {}, "that the harness's own probe felt it says nothing of any client"
    assert ended["value"]["proven"] == {"cuts_clients": ["client"]} and ended["value"]["effective"]
    assert ended["value"]["proof"]["clients"] == ["producer-0"]


def test_what_no_client_has_felt_has_no_effect(tmp_path: Path) -> None:
    rows = undone(tmp_path, frozenset())
    assert rows and not any(row["value"].get("effective") or row["value"].get("proven") for row in rows)


def test_a_deployment_that_can_not_tell_proves_it_for_all(tmp_path: Path) -> None:
    injected, ended = undone(tmp_path, None)
    assert injected["value"]["proven"] == {"cuts_clients": ["client"]}
    assert ended["value"]["effective"] and "clients" not in ended["value"]["proof"]


@pytest.mark.process
def test_the_proxies_know_whom_they_hit(tmp_path: Path) -> None:
    from tests.chaos.deployments.test_process import World

    nodes = frozenset({"toy-0", "toy-1"})

    async def script(world: World) -> None:
        it = world.deployment

        async def ask(client: str) -> None:
            try:
                await it.connect(client, "toy-0").request(_echo(), 0.3)
            except TimeoutError:
                pass

        await it.set_rule("cut", LinkRule(frozenset({"*"}), nodes, Drop(), nodes))
        await it.set_rule("late", LinkRule(frozenset({"idle"}), nodes, Delay(1_000_000), nodes))
        await ask("producer-0")
        await it.reaches("client", "toy-0")
        assert await it.clients_hit("cut") == {"producer-0"}, "neither nodes, nor by what the harness looks"
        assert await it.clients_hit("late") == await it.clients_hit("nobody's") == frozenset()

    World("process", tmp_path / "run").run(script)


def _echo() -> Any:
    from chaos.plain import PlainMessage

    return PlainMessage(kind=ECHO, body=json.dumps({}).encode())
