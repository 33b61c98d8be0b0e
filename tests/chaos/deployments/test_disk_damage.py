"""Disks that change behind the back of a node: what it finds at its next start, and when that can't be done."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.deployments import damage
from tests.chaos.deployments.test_process import World

pytestmark = pytest.mark.process


@pytest.fixture(params=["sim", "process"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(request.param, tmp_path / f"run-{os.getpid()}-{time.monotonic_ns()}")


@pytest.mark.parametrize(
    "script",
    [
        damage.old_bytes_change_and_young_ones_stay,
        damage.only_a_node_that_has_lived_on_is_harmed,
        damage.a_disk_goes_back_in_time,
    ],
)
def test_a_disk_changes_behind_the_back_of_its_node(
    world: World, script: Callable[[World], Coroutine[Any, Any, None]]
) -> None:
    world.run(script)
    assert not world.deployment.crashes
