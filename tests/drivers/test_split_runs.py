"""The split system under its driver, in the simulator."""

from __future__ import annotations

from chaos.testing.drivers import check_driver
from drivers.split import Options, create


def test_the_split_driver_passes_and_everything_could_be_checked() -> None:
    assert check_driver(create(Options(groups=4, queues=4)), load_s=3.0) == ()
