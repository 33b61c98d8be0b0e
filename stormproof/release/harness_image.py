"""Builds an image of the harness itself (``make dist``): ``python -m stormproof.release.harness_image dist``.

It holds the wheel in ``dist`` and what the lock says that it needs, for the Python of the base, without Spark; ends as
``dist/stormproof-VERSION-image.tar.gz``, which ``docker load`` reads. Where there is no engine, or no base, nothing is
built and one sentence says why.
"""

from __future__ import annotations

import gzip
import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from chaos.errors import ChaosError, MachineError
from chaos.version import VERSION
from stormproof.image import base_of
from stormproof.release.lock import read_lock, runtime_needs

if TYPE_CHECKING:
    from docker import DockerClient

IMAGE = f"stormproof:{VERSION}"
DOCKERFILE = "harness.Dockerfile"
#: Needs Java, which the image does not have, and is larger than all else.
LEFT_OUT = ("pyspark", "py4j")
#: What wheels with binaries say that they run on.
PLATFORMS = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
PYTHON = "import sys; print('.'.join(map(str, sys.version_info[:2])))"


def build(client: DockerClient, dist: Path, lock: Path, project: Path) -> Path:
    """Build the image from the one wheel in ``dist``, and write it there; returns the file. Raises
    :class:`chaos.errors.ChaosError`."""
    wheels = sorted(dist.glob(f"stormproof-{VERSION}-*.whl"))
    if len(wheels) != 1:
        raise MachineError(f"{dist} holds {len(wheels)} wheels of stormproof {VERSION}; one is needed")
    upon = base_of(client, lambda sentence: print(sentence, file=sys.stderr))
    python = client.containers.run(upon, ["python3", "-c", PYTHON], remove=True, network_disabled=True)
    needed = needs(lock.read_text("utf-8"), tomllib.loads(project.read_text("utf-8"))["project"])
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "code"
        install(needed, code, python.decode().strip())
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(code)
        with tempfile.TemporaryFile() as context:
            pack(context, code)
            client.images.build(
                fileobj=context, custom_context=True, tag=IMAGE, buildargs={"BASE": upon}, rm=True, forcerm=True
            )
    return save(client, dist / f"stormproof-{VERSION}-image.tar.gz")


def needs(lock: str, project: Mapping[str, Any]) -> list[str]:
    """Return lines for pip, with the hashes of the lock: what is needed to run, but not :data:`LEFT_OUT`."""
    entries = read_lock(lock)
    needed = runtime_needs(entries, project) - set(LEFT_OUT)
    chosen = [one for one in entries if one.name in needed]
    return [
        " ".join([
            f"{one.name}=={one.version}", *([f"; {one.marker}"] if one.marker else []),
            *(f"--hash={kind}:{digits}" for kind, digits in one.hashes),
        ])
        for one in chosen
    ]  # fmt: skip


def install(needed: Sequence[str], code: Path, python: str) -> None:
    """Unpack these packages for a Python of this version, which need not be here."""
    requirements = code.with_suffix(".txt")
    requirements.write_text("\n".join(needed) + "\n", "utf-8")
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--require-hashes", "--only-binary", ":all:", "--python-version", python, "--target", str(code),
             "--requirement", str(requirements)]  # fmt: skip
    words += [word for name in PLATFORMS for word in ("--platform", f"{name}_{platform.machine()}")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MachineError(f"pip can't bring what the image needs: {done.stderr.strip()[-500:]}")


def pack(context: IO[bytes], code: Path) -> None:
    """Write what the engine builds from, and go back to its beginning."""
    dockerfile = (resources.files("stormproof.images") / DOCKERFILE).read_bytes()
    with tarfile.open(fileobj=context, mode="w") as archive:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        archive.addfile(entry, io.BytesIO(dockerfile))
        archive.add(code, "code", filter=_readable)
    context.seek(0)


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Make an entry the same on every machine: owned by root, and everybody may read it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def save(client: DockerClient, path: Path) -> Path:
    with path.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0, compresslevel=6) as packed:
        for chunk in client.images.get(IMAGE).save(named=True):
            packed.write(chunk)
    return path


def main() -> None:
    from docker.errors import DockerException

    from chaos.machines.docker.engine import connect

    dist = Path(sys.argv[1])
    try:
        client = connect()
        try:
            print(build(client, dist, Path("requirements.lock"), Path("pyproject.toml")))
        finally:
            client.close()
    except (ChaosError, DockerException, OSError) as error:
        print(f"no image of the harness: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
