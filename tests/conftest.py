"""What holds for every test."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: then no test
# of Ctrl-C could pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def machine() -> Iterator[None]:
    """The whole machine: no other test has a cluster without a harness, which ``heal --all`` would end."""
    with (Path(tempfile.gettempdir()) / f"stormproof-tests-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@cache
def no_engine() -> str:
    """Why Docker's engine can't be used here; "" if it can."""
    from chaos.deployments._dockerengine import connect
    from chaos.errors import MachineError

    try:
        connect().close()
    except MachineError as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Without Docker's engine all that needs it is skipped, with one line that says why."""
    if item.get_closest_marker("docker") and no_engine():
        pytest.skip(no_engine())


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """Docker's engine, with the image of the present code; where none can be built the test is skipped."""
    from chaos.deployments._dockerengine import connect, image_problem
    from chaos.errors import MachineError
    from chaos.image import build

    try:
        client = connect()
        if image_problem(client):
            build(client, print)
    except MachineError as error:
        pytest.skip(str(error))
    yield client
    client.close()


@pytest.fixture(scope="session")
def hosts(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Hosts with SSH servers; whoever ends one starts it again."""
    from tests.deployments import ssh_hosts

    found = ssh_hosts.start(engine, tmp_path_factory.mktemp("hosts"), ssh_hosts.COUNT)
    yield found
    found.remove()
