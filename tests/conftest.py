"""What holds for every test."""

from __future__ import annotations

import fcntl
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, configuration, settings
from hypothesis.internal.conjecture import providers

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: then no test
# of Ctrl-C could pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Fixtures end what they have started also when somebody's patience ends.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# Properties (CONTRIBUTING.md). A test has the same examples in every process, whatever ran before it: they are derived
# from the test itself, no database remembers failures, and no constants are collected from imported modules.
configuration.set_hypothesis_home_dir(Path(__file__).parent.parent / ".cache" / "hypothesis")
providers._get_local_constants = lambda: providers.Constants()
_SAME = settings(
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("quick", _SAME, max_examples=10, stateful_step_count=20)
settings.register_profile("short", _SAME, max_examples=50, stateful_step_count=50)
settings.register_profile("long", _SAME, max_examples=250, stateful_step_count=50)


FAILED = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """`make test` tries few examples of each property, `make test-full` five times as many; `make check` names
    `quick`."""
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("short" if "not full" in config.getoption("markexpr") else "long")


@pytest.fixture(scope="session", autouse=True)
def state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What runs of tests may leave behind is noted in a folder of their own, also by the programs that they start."""
    from chaos.machines.healing import state

    folder = tmp_path_factory.mktemp("state", numbered=True)
    folder.chmod(0o700)
    with state.using(folder):
        yield folder
    end_what_is_left(tmp_path_factory.getbasetemp())


def end_what_is_left(folder: Path) -> None:
    """End all nodes of runs below this folder, also those in containers if any test has used some."""
    from chaos.machines.docker.engine import connect
    from tests import left_behind

    left_behind.end_processes(folder)
    if no_containers.cache_info().currsize and not no_containers():
        with closing(connect()) as client:
            left_behind.remove_containers(client, folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test that fails has started, and its fixtures did not end, ends with it."""
    report = yield
    item.stash[FAILED] = report.failed or item.stash.get(FAILED, False)
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if call.when == "teardown" and item.stash[FAILED] and folder is not None:
        end_what_is_left(folder)
    return report


@pytest.fixture
def machine() -> Iterator[None]:
    """The whole machine: no other test has a cluster without a harness, which ``heal --machine`` would end."""
    with _locked(fcntl.LOCK_EX):
        yield


@pytest.fixture
def abandoned() -> Iterator[None]:
    """A cluster may lose its harness: nobody says ``heal --machine`` meanwhile."""
    with _locked(fcntl.LOCK_SH):
        yield


@contextmanager
def _locked(how: int, what: str = "tests") -> Iterator[None]:
    with (Path(tempfile.gettempdir()) / f"stormproof-{what}-{os.getuid()}.lock").open("w") as file:
        fcntl.flock(file, how)
        yield


@cache
def no_containers() -> str:
    """Why nothing can run in containers here, with the present code in the image; "" if it can."""
    from chaos.errors import MachineError
    from chaos.machines.docker.engine import connect
    from stormproof.image import build, outdated

    try:
        with closing(connect()) as client, _locked(fcntl.LOCK_EX, "image"):  # one process builds, the others wait
            if outdated(client):
                build(client, print)
    except MachineError as error:
        return str(error)
    return ""


@cache
def no_namespaces() -> str:
    """Why no user can have network namespaces here; "" if they can."""
    from chaos.machines.netns.trial import outlook

    found = outlook()
    return "" if found.ok else found.mend


def needs_containers(item: pytest.Item) -> bool:
    """Whether a test is marked so, or asks for Docker's ``engine``; one among its parameters is another engine."""
    if any(item.get_closest_marker(name) for name in ("docker", "ssh")):
        return True
    assert isinstance(item, pytest.Function)
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return "engine" in item.fixturenames and "engine" not in parameters


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where there are no containers, or no namespaces, all that needs some is skipped, with one line that says why."""
    if needs_containers(item) and no_containers():
        pytest.skip(no_containers())
    if item.get_closest_marker("netns") and no_namespaces():
        pytest.skip(no_namespaces())


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """Docker's engine, which has the image of the present code."""
    from chaos.machines.docker.engine import connect

    client = connect()
    yield client
    client.close()


@pytest.fixture(scope="session")
def hosts(engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Hosts with SSH servers; whoever ends one starts it again."""
    from tests.chaos.deployments import ssh_hosts

    found = ssh_hosts.start(engine, tmp_path_factory.mktemp("hosts"), ssh_hosts.COUNT)
    yield found
    found.remove()
