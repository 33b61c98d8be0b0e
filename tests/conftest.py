"""What holds for every test."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Iterator
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


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """Docker's engine, with the image of the present code; where there is none the test is skipped and says why."""
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
