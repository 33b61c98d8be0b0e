"""Tries in a container that ends at once whether the kernel can do to packets between nodes what faults need."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from chaos.deployment import Demands
from chaos.machines import netem
from chaos.machines.docker.engine import engine_errors, image_name
from chaos.machines.traffic_control import no_netem

if TYPE_CHECKING:
    from docker import DockerClient

#: The device that every container has, and what traffic control calls what we put up on it.
_DEVICE, _NAME = "lo", "trial"


def check(client: DockerClient, demands: Demands) -> None:
    """Raise :class:`chaos.errors.MachineError` where the faults need netem and the engine's kernel has none: said
    before anything is written, and not when the nodes' links are set up."""
    if demands.link_actions & netem.ACTIONS and (said := _refusal(client)):
        raise no_netem("this machine", said)


def _refusal(client: DockerClient) -> str:
    """Return in the words of its tool why no container's traffic can be shaped; "" if it can."""
    from docker.errors import ContainerError

    lines = "\n".join(netem.begin(_DEVICE, netem.major(_NAME)))
    script = f"printf '%s\\n' {shlex.quote(lines)} | {shlex.join(netem.BATCH)} >&2"
    with engine_errors():
        try:
            client.containers.run(
                image_name(), ["-c", script], entrypoint=["sh"],
                network_mode="none", user="0:0", cap_drop=["ALL"], cap_add=["NET_ADMIN"], read_only=True, remove=True,
            )  # fmt: skip
        except ContainerError as error:
            words = error.stderr.decode("utf-8", "replace") if isinstance(error.stderr, bytes) else ""
            return words.partition("\n")[0] or f"exit code {error.exit_status}"
    return ""
