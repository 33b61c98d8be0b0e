"""Containers of others: rules outlive their lives, whatever address they get."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.deployments import attach
from chaos.driver import ClusterSpec
from chaos.effects.links import Drop, LinkRule, Reach
from chaos.errors import DeploymentError
from chaos.experiment.attached import Attach
from chaos.fault import NotNow, Undo, Verb
from chaos.node import NodeSpec
from chaos.program import Program, problems
from tests.stormproof.compose_project import PORT, ComposeProject

PRIMARY, BACKUP = "queue-0", "queue-1"


@pytest.fixture
def project(engine: Any, tmp_path: Path) -> Iterator[ComposeProject]:
    made = ComposeProject(engine, tmp_path / "services")
    yield made
    made.remove()


def cluster() -> ClusterSpec:
    program = Program(argv=["tinyq"], ports={"queue": PORT})
    return ClusterSpec(nodes=[NodeSpec(name=name, role="broker", program=program) for name in (PRIMARY, BACKUP)])


def test_what_a_driver_would_install_need_not_be_there() -> None:
    program = Program(argv=["{installed}/queue"], files={"conf": "{installed}"}, env={"JARS": "{installed}"})
    assert problems({PRIMARY: program}, [PRIMARY])
    assert not problems({PRIMARY: attach._running(program)}, [PRIMARY])


@pytest.mark.full
@pytest.mark.docker
def test_a_rule_holds_for_a_node_that_is_started_again_elsewhere(
    tmp_path: Path, project: ComposeProject, engine: Any
) -> None:
    services = Attach(compose=project.name, nodes={PRIMARY: "primary", BACKUP: "backup"})
    it = attach.create(run_id="run", directory=tmp_path / "run", seed=1, attach=services)
    (tmp_path / "run").mkdir()
    it.expect_link_actions(frozenset({Drop}))
    squatters = []

    def address(service: str) -> str:
        project.containers[service].reload()
        found = project.containers[service].attrs["NetworkSettings"]["Networks"][project.network.name]
        return str(found["IPAddress"])

    async def script() -> None:
        assert await it.reaches(PRIMARY, BACKUP) and await it.reaches(BACKUP, PRIMARY)
        await it.set_rule("cut", LinkRule(frozenset({PRIMARY}), frozenset({BACKUP}), Drop()))
        assert await it.try_link(PRIMARY, BACKUP) is Reach.CUT and await it.rule_hits("cut") > 0
        before = address("backup")
        proof = await it.kill(BACKUP)
        assert proof["container"] == project.containers["backup"].name and proof["alive"] is False
        with pytest.raises(NotNow):
            await it.kill(BACKUP)
        image = project.containers["backup"].image.id
        squatters.append(
            engine.containers.run(image, ["9"], entrypoint="sleep", detach=True, network=project.network.name)
        )
        await it.undo(Undo(verb=Verb.START, subject=BACKUP))
        assert address("backup") != before, "its address was taken meanwhile"
        assert await it.answers(BACKUP) and await it.reaches("client", BACKUP), "clients find it where it is now"
        assert not await it.reaches(PRIMARY, BACKUP), "the rule holds for its new life"
        hits = await it.rule_hits("cut")
        assert hits > 0
        await it.undo(Undo(verb=Verb.CLEAR_RULE, subject="cut"))
        assert await it.reaches(PRIMARY, BACKUP) and await it.reaches(BACKUP, PRIMARY)
        with pytest.raises(DeploymentError, match="wiped"):
            await it.wipe(BACKUP)

    async def main() -> int:
        try:
            await it.start(cluster(), lambda row: None)
            await script()
        finally:
            await it.stop()
        return 0

    try:
        it.execute(main())
        assert not it.losses and not it.crashes
        assert not project.helpers() and not project.rules()
    finally:
        for one in squatters:
            one.remove(force=True)
