"""The split system under its driver, in the simulator and on processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.deployments import process
from chaos.testing.drivers import check_driver
from drivers.split import Options, create


def test_the_split_driver_passes_and_everything_could_be_checked() -> None:
    assert check_driver(create(Options(groups=4, queues=4)), load_s=3.0) == ()


@pytest.mark.process
def test_the_split_driver_passes_on_processes(tmp_path: Path) -> None:
    host = process.create(run_id="check", directory=tmp_path, seed=1)
    assert check_driver(create(Options(metas=1, groups=4, queues=4)), deployment=host, load_s=1.0) == ()
