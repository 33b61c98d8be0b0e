"""Builds the image that nodes in containers are started from, also on machines that can pull nothing."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from importlib import resources
from typing import TYPE_CHECKING

from chaos import plugins
from chaos.errors import BadInput, MachineError
from chaos.machines.docker.engine import (
    CODE,
    IMAGE,
    PACKAGES,
    engine_errors,
    explain,
    held_packages,
    image_name,
    image_problem,
)
from chaos.machines.node_package import node_wheel, package_digest
from chaos.plugins import PluginKind

if TYPE_CHECKING:
    from docker import DockerClient

#: What the image is built upon: the first where it can be pulled, else what ``images/debian.sh`` makes.
PULLED_BASE = "python:3.12-slim"
DEBIAN_BASE = "stormproof-base:debian"
DOCKERFILE, SCRIPT = "node.Dockerfile", "debian.sh"
#: Label of what is built on the way to the image.
STAGE = "stormproof.stage"
#: Stages younger than this may belong to a build that is under way.
STAGE_AGE = "1h"

#: So many images of different code are kept; each takes little more than its code.
KEPT = 8

Say = Callable[[str], None]


def systems() -> tuple[str, ...]:
    """Return the packages of nodes that the image holds, for use by hand: those of all drivers that need no options. A
    run brings the packages that its image lacks, or holds in another version."""
    found = set[str]()
    for name in plugins.names(PluginKind.DRIVER):
        try:
            nodes = plugins.build(PluginKind.DRIVER, name).cluster("").nodes
            packages = {node.package for node in nodes if node.package}
            for package in packages:
                package_digest(package)
        except (BadInput, TypeError, ValueError):
            continue  # it is broken, or can't do without options
        found |= packages
    return tuple(sorted(found))


def build(client: DockerClient, say: Say, *, base: str = "") -> None:
    """Build the image, also where there is one; ``say`` hears in sentences what is done. ``base``: build upon this one
    and no other.

    Raises :class:`MachineError` when no base can be had, :class:`chaos.errors.DeploymentError` when the build fails.
    """
    base = base or base_of(client, say)
    say(f"building {image_name()} upon {base}")
    _build(client, base)
    _forget_old(client)
    say(f"{image_name()} is there, as {IMAGE} too")


def outdated(client: DockerClient) -> bool:
    """Return whether the image is not there, or :func:`systems` in it are not those of here; runs need only its
    shell."""
    return bool(image_problem(client)) or any(
        held_packages(client).get(system) != package_digest(system) for system in systems()
    )


def base_outlook(client: DockerClient) -> str:
    """Return upon what :func:`build` would build here, in words; asks no network."""
    if _id(client, PULLED_BASE):
        return f"{PULLED_BASE} is there"
    if _id(client, DEBIAN_BASE):
        return f"{DEBIAN_BASE} is there"
    lacking = _lacking()
    if lacking:
        return f"{PULLED_BASE} must be pulled ({lacking} to build a base without)"
    return f"{PULLED_BASE} is pulled, or where that fails a base is made from the distribution's packages"


def base_of(client: DockerClient, say: Say) -> str:
    """Return upon what images are built: what is there, what can be pulled, or a base made here. Raises
    :class:`MachineError`."""
    for known in (PULLED_BASE, DEBIAN_BASE):
        if _id(client, known):
            return known
    say(f"pulling {PULLED_BASE}")
    why = _pull(client)
    if not why:
        return PULLED_BASE
    lacking = _lacking()
    if lacking:
        raise MachineError(
            f"{PULLED_BASE} can't be pulled ({why}), and {lacking} to make a base from the distribution's packages"
        )
    say(f"it can't be pulled ({why}): making {DEBIAN_BASE} from the distribution's packages instead, about a minute")
    with resources.as_file(resources.files("stormproof.images") / SCRIPT) as script:
        done = subprocess.run(["/bin/sh", str(script), DEBIAN_BASE], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MachineError(done.stderr.strip() or f"{SCRIPT} failed with exit code {done.returncode}")
    return DEBIAN_BASE


def _lacking() -> str:
    """Return what this machine lacks for making a base by itself; "" if nothing."""
    missing = [tool for tool in ("debootstrap", "docker") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} would have to be installed"
    return "" if os.geteuid() == 0 else "root would be needed"


def _pull(client: DockerClient) -> str:
    """Pull the base; why that failed, or ""."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        client.images.pull(PULLED_BASE)
    except (DockerException, RequestException) as error:
        return explain(error)
    return ""


def _id(client: DockerClient, image: str) -> str:
    from docker.errors import ImageNotFound

    with engine_errors():
        try:
            return str(client.images.get(image).id)
        except ImageNotFound:
            return ""


def _build(client: DockerClient, base: str) -> None:
    from docker.errors import BuildError

    packages = systems()
    wheel = node_wheel(packages)
    dockerfile = (resources.files("stormproof.images") / DOCKERFILE).read_bytes()
    with engine_errors():
        try:
            image, _ = client.images.build(
                fileobj=_archive({"Dockerfile": dockerfile, wheel.name: wheel.data}),
                custom_context=True,
                tag=image_name(),
                buildargs={"BASE": base},
                labels={CODE: wheel.digest, PACKAGES: json.dumps({name: package_digest(name) for name in packages})},
                rm=True,
                forcerm=True,
            )
        except BuildError as error:
            lines = "".join(str(line.get("stream") or line.get("error") or "") for line in error.build_log)
            raise MachineError(f"{IMAGE} can't be built: {error.msg}\n{lines[-1500:].strip()}") from error
        image.tag(IMAGE)


def _archive(files: Mapping[str, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(data))
    buffer.seek(0)
    return buffer


def _forget_old(client: DockerClient) -> None:
    """Keep the newest images only, and those that containers need, and nothing of how they were built."""
    from docker.errors import APIError

    try:
        client.images.prune(filters={"dangling": True, "label": STAGE, "until": STAGE_AGE})
    except APIError:
        pass  # somebody else is cleaning up
    with engine_errors():
        images = client.images.list(name=IMAGE.partition(":")[0])
    for image in sorted(images, key=lambda image: str(image.attrs["Created"]), reverse=True)[KEPT:]:
        for tag in image.tags:
            try:
                client.images.remove(tag)
            except APIError:
                pass
