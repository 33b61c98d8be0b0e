"""Docker's engine on this machine: how to reach it, what our things are called there, and what is wrong, in words."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from chaos.errors import DeploymentError, MachineError
from chaos.fault import NotNow
from chaos.machines.node_package import node_wheel
from chaos.node import NodeSpec
from chaos.version import VERSION

if TYPE_CHECKING:
    from docker import DockerClient

#: The image of one node: of this release's newest code, for use by hand. Runs are started from :func:`image_name`.
IMAGE = f"stormproof-node:{VERSION}"
#: Labels of the image: the digest of the wheel that is in it, and which packages of nodes that holds, as JSON: the
#: digest of each. A run's nodes get theirs from this machine where the image holds other code, or none.
CODE = "stormproof.code"
PACKAGES = "stormproof.packages"
#: Labels of all containers and networks of a run: the run's id; its directory; the harness as ``PID:START``; the id of
#: the user whom they belong to, for an engine serves all who may use it; the name of the node; and which of a node's
#: two containers it is (:data:`MACHINE`, :data:`PROGRAM`).
RUN = "stormproof.run"
DIRECTORY = "stormproof.directory"
HARNESS_PROCESS = "stormproof.harness"
USER = "stormproof.user"
NODE = "stormproof.node"
PART = "stormproof.part"
MACHINE, PROGRAM = "machine", "program"

#: The engine's words when a name is taken, or when it has no addresses left for one more network.
_LEFTOVER = re.compile("already in use|already exists|address pool")
#: The engine's answer to what can't be done in a container's present state.
CONFLICT = 409
#: Its words when processes did not stand still in time (a busy machine); it has let all of them go on then.
_NOT_FROZEN = "unable to freeze"
#: Its words for a network that somebody is in, or that it counts somebody in still.
IN_USE = "active endpoints"
DEFAULT_SOCKET = "/var/run/docker.sock"
ANSWER_S = 60.0
PING_S = 5.0
#: Threads that talk with the engine at the same time, and connections that they share.
THREADS = 8


def connect() -> DockerClient:
    """Return a client of the engine, which has answered. Raises :class:`MachineError`: what is wrong, and what to
    do."""
    path = _socket_path()
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PING_S)
            probe.connect(str(path))
    except FileNotFoundError as error:
        raise MachineError(
            f"no Docker engine: {path} is not there; install one and start it (Debian/Ubuntu: apt-get install"
            " docker.io), or run on processes or in the simulator: `--on process`, `--on sim`"
        ) from error
    except PermissionError as error:
        raise MachineError(
            f"no permission to use Docker's engine at {path}: add your user to the group docker and log in again"
            " (sudo usermod -aG docker $USER), or run as root"
        ) from error
    except OSError as error:
        raise MachineError(
            f"Docker's engine does not answer at {path} ({error.strerror or error}): start it"
            " (systemctl start docker, or dockerd as root)"
        ) from error
    import docker  # late: most commands need no engine

    with engine_errors():
        client = docker.DockerClient(
            base_url=f"unix://{path}", version="auto", timeout=ANSWER_S, max_pool_size=2 * THREADS
        )
        client.ping()
    return client


def _socket_path() -> Path:
    """Return where the engine listens. It must be of this machine: nodes' files are shared with containers by path."""
    host = os.environ.get("DOCKER_HOST", "")
    if host and not host.startswith("unix://"):
        raise MachineError(
            f"DOCKER_HOST is {host}, but containers must run on this machine, with which they share the nodes' files:"
            " unset it, or set it to unix:// and the path of a socket"
        )
    return Path(host.removeprefix("unix://") or DEFAULT_SOCKET)


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn what the engine or the way to it complains about into :class:`DeploymentError`."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except DockerException as error:
        why = explain(error)
        fix = "; `stormproof heal --machine` removes what earlier runs left" if _LEFTOVER.search(why) else ""
        raise DeploymentError(f"Docker's engine refused: {why}{fix}") from error
    except RequestException as error:
        raise DeploymentError(
            f"Docker's engine answers no more ({error}): when it runs again, `stormproof heal` removes what is left"
        ) from error


@contextmanager
def not_now(why: str) -> Iterator[None]:
    """Raise :class:`NotNow` with ``why`` when the engine says that the container is in another state than the call
    needs; and when its processes did not stand still in time, so that it goes on as before."""
    from docker.errors import APIError

    try:
        yield
    except APIError as error:
        if error.response is not None and error.response.status_code == CONFLICT:
            raise NotNow(why) from error
        if _NOT_FROZEN in explain(error):
            raise NotNow("its processes could not be frozen") from error
        raise


def explain(error: Exception) -> str:
    """Return the engine's own words, without the address that was asked."""
    return str(getattr(error, "explanation", None) or error).strip()


def image_name() -> str:
    """Return the image that holds the very shell of nodes that is here. Two checkouts on one machine may have two
    images."""
    return f"{IMAGE}-{node_wheel().digest[:12]}"


def image_problem(client: DockerClient, foreign: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return why no nodes can be started here; "" if they can. ``foreign``: by node, the image of a program of
    others."""
    from docker.errors import ImageNotFound

    with engine_errors():
        try:
            client.images.get(image_name())
        except ImageNotFound:
            return f"the image {image_name()}, which holds this very code, is not there: `stormproof image` builds it"
        for node, image in foreign.items():
            try:
                client.images.get(image)
            except ImageNotFound:
                return f"the image {image} of node {node} is not there: `docker pull {shlex.quote(image)}`, or build it"
    return ""


def connect_for(nodes: Iterable[NodeSpec]) -> DockerClient:
    """Return a client of an engine that can start these nodes. Raises :class:`MachineError` where it can't, as
    :func:`connect` does."""
    client = connect()
    try:
        images = {node.name: node.program.image for node in nodes if node.program and node.program.image}
        if problem := image_problem(client, images):
            raise MachineError(problem)
    except BaseException:
        client.close()
        raise
    return client


def held_packages(client: DockerClient) -> Mapping[str, str]:
    """Return which packages of nodes the image holds: the digest of each."""
    with engine_errors():
        held: dict[str, str] = json.loads(client.images.get(image_name()).labels.get(PACKAGES, "{}"))
    return held


def of_run(client: DockerClient, directory: Path | None = None) -> tuple[list[Any], list[Any]]:
    """Return all containers, ended ones too, and all networks of the run in this directory; of every run of this user
    without one.

    A run's directory sets it apart from all others; its id does only among those below one folder.
    """
    label = f"{DIRECTORY}={directory}" if directory else RUN
    with engine_errors():
        containers = client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
        networks = client.networks.list(filters={"label": label})
    return list(filter(_ours, containers)), list(filter(_ours, networks))


def labels_of(item: Any) -> dict[str, str]:
    """Return the labels of a container or a network."""
    labels: dict[str, str] = item.attrs.get("Labels") or item.attrs.get("Config", {}).get("Labels") or {}
    return labels


def _ours(item: Any) -> bool:
    me = str(os.getuid())
    return labels_of(item).get(USER, me) == me
