"""What this machine can and can't do for Stormproof, and how to fix it."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from chaos import plugins
from chaos.deployment import Outlook
from chaos.errors import BadInput, ChaosError, MachineError
from chaos.experiment.inventory import KNOWN_HOSTS, Host, Inventory
from chaos.judging.class_archive import find_java
from chaos.plugins import PluginKind
from checkers.linearizable import find_javac, jar_problem, jar_version
from stormproof.release.lock import DEVELOPMENT

#: What is installed, and how it says that an extra needs a package.
PROJECT = "stormproof"
_NEED = re.compile(r"(?P<name>[\w.-]+).*;.*extra == ['\"](?P<extra>[\w-]+)['\"]")
LEAST_FREE_BYTES = 2 * 2**30
LEAST_MEMORY_BYTES = 2 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``ok`` with what was found, or what is missing, what that forbids, and how to fix it. ``optional``: nothing but a
    deployment that nobody needs depends on it."""

    what: str
    ok: bool
    found: str
    mend: str = ""
    optional: bool = False


def examine(out: Path, hosts: Inventory = ()) -> Iterator[Finding]:
    """Look at everything that some command needs; ``out`` is the folder of the runs. Each of the hosts is tried."""
    yield from (_python(), _packages(), *_extras(), _java())
    yield from (check() for check in (_checker, _cores, _memory, _loopback, _signals, _state, _docker))
    yield from _deployments()
    yield from _hosts(hosts) if hosts else (_ssh(),)
    yield _disk(out)


def _python() -> Finding:
    good = sys.version_info >= (3, 11)
    return Finding(what="Python", ok=good, found=platform.python_version(), mend="install Python 3.11 or newer")


def _packages() -> Finding:
    versions, missing = [], []
    for name in ("numpy", "pyarrow", "scipy", "pyspark", "py4j", "pydantic", "ruamel.yaml", "junitparser", "jinja2"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            missing.append(name)
    found = f"missing: {', '.join(missing)}" if missing else ", ".join(versions)
    return Finding(what="Packages", ok=not missing, found=found, mend="install stormproof again (`make setup`)")


def _extras() -> Iterator[Finding]:
    """Yield what is there of each extra, which brings what only some drivers and loads need."""
    for extra, names in extras().items():
        try:
            found = ", ".join(f"{name} {metadata.version(name)}" for name in names)
            yield Finding(what=f"Extra {extra}", ok=True, found=found, optional=True)
        except metadata.PackageNotFoundError as error:
            fix = f"pip install 'stormproof[{extra}]'"
            yield Finding(what=f"Extra {extra}", ok=False, found=f"without {error.name}", mend=fix, optional=True)


def extras() -> dict[str, list[str]]:
    """Return the packages that each extra for users asks for, as the installed Stormproof says; empty where it is not
    installed."""
    try:
        needs = metadata.requires(PROJECT) or []
    except metadata.PackageNotFoundError:
        return {}
    found: dict[str, list[str]] = {}
    for need in needs:
        if (marked := _NEED.match(need)) and marked["extra"] != DEVELOPMENT:
            found.setdefault(marked["extra"], []).append(marked["name"])
    return found


def _java() -> Finding:
    try:
        found = str(find_java())
    except MachineError as error:
        return Finding(what="Java", ok=False, found="none found", mend=str(error))
    return Finding(what="Java", ok=True, found=found)


def _checker() -> Finding:
    """Examine the linearizability checker's jar, and the compiler that builds it."""
    try:
        compiler = f"built with {find_javac()}"
    except MachineError:
        compiler = "no javac to build it again"
    wrong = jar_problem()
    found = compiler if wrong else f"version {jar_version()}, {compiler}"
    return Finding(what="Checker", ok=not wrong, found=found, mend=wrong)


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    fix = "runs on processes share one core with what they test, and may stall: give the machine two"
    return Finding(what="Cores", ok=count >= 2, found=str(count), mend=fix)


def _memory() -> Finding:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return Finding(what="Memory", ok=True, found="unknown here")
    fix = "Spark takes about 1 GiB: end other programs, or use `--engine local`"
    return Finding(what="Memory", ok=free >= LEAST_MEMORY_BYTES, found=f"{free / 2**30:.1f} GiB free", mend=fix)


def _loopback() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            found = f"listens on 127.0.0.1:{server.getsockname()[1]}"
        return Finding(what="Loopback", ok=True, found=found)
    except OSError as error:
        fix = "runs on processes need to listen on 127.0.0.1: allow it, or use `--on sim`"
        return Finding(what="Loopback", ok=False, found=str(error), mend=fix)


def _signals() -> Finding:
    good = sys.platform == "linux" and Path("/proc/self/environ").exists()
    fix = "runs on processes need Linux with /proc (to find and to heal nodes): use `--on sim` here"
    return Finding(what="Processes", ok=good, found=platform.platform(terse=True), mend=fix)


def _state() -> Finding:
    """Examine whether runs can note what they may leave behind."""
    from chaos.machines.healing import state

    problem = state.problem()
    found = "for `--on ssh` and `--on attach`" if problem else str(state.place())
    return Finding(what="State", ok=not problem, found=found, mend=problem, optional=True)


def _docker() -> Finding:
    """Examine whether nodes can be containers: is there an engine, and the image, or what would it be built upon?"""
    from chaos.machines.docker.engine import connect, image_name, image_problem
    from stormproof.image import base_outlook

    what = "Docker"
    try:
        client = connect()
    except ChaosError as error:
        return Finding(what=what, ok=False, found="no engine for `--on docker`", mend=str(error), optional=True)
    try:
        engine = f"engine {client.version()['Version']}"
        problem = image_problem(client)
        if problem:
            return Finding(what=what, ok=False, found=f"{engine}; {base_outlook(client)}", mend=problem, optional=True)
        return Finding(what=what, ok=True, found=f"{engine}, image {image_name()}", optional=True)
    except Exception as error:  # an engine that breaks in mid-sentence
        return Finding(what=what, ok=False, found="an engine that fails", mend=str(error), optional=True)
    finally:
        client.close()


def lacking(deployment: str) -> str:
    """Return why nothing can be run on this deployment here, as far as that is known before; "" where nothing is."""
    findings = [_docker()] if deployment == "docker" else _outlook(deployment)
    return "; ".join(one.mend for one in findings if not one.ok)


def _deployments() -> Iterator[Finding]:
    """Yield what deployments say themselves of this machine."""
    for name in plugins.names(PluginKind.DEPLOYMENT):
        yield from _outlook(name)


def _outlook(deployment: str) -> Iterator[Finding]:
    try:
        made = plugins.load(PluginKind.DEPLOYMENT, deployment)
    except BadInput as error:
        yield Finding(what=deployment, ok=False, found="a broken deployment", mend=str(error), optional=True)
        return
    outlook: Callable[[], Outlook] | None = getattr(made, "outlook", None)
    if outlook is not None:
        yield Finding(**dataclasses.asdict(outlook()), optional=True)


def _ssh() -> Finding:
    """Examine whether any host could be trusted; which hosts there are, only an inventory says."""
    known = Path(KNOWN_HOSTS).expanduser()
    try:
        lines = known.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    keys = [line for line in lines if line.strip() and not line.startswith("#")]
    fix = (
        "`--on ssh` takes hosts from `hosts` in the experiment or from --inventory FILE (docs/where-to-run.md),"
        " and each must be known: `stormproof doctor --inventory FILE` tries them, and says how to accept their keys"
    )
    if not keys:
        return Finding(what="SSH", ok=False, found=f"{KNOWN_HOSTS} knows no host", mend=fix, optional=True)
    found = f"{KNOWN_HOSTS} holds {len(keys)} keys; `stormproof doctor --inventory FILE` tries the hosts"
    return Finding(what="SSH", ok=True, found=found, optional=True)


def _hosts(hosts: Inventory) -> list[Finding]:
    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(pool.map(_host, hosts))


def _host(host: Host) -> Finding:
    """Connect as a run would, and become root as its faults would; nothing is left there but the nodes' code."""
    from chaos.machines.node_package import node_wheel
    from chaos.machines.ssh.host import SshHost

    one = SshHost(host, f"doctor-{os.getpid()}", node_wheel())
    what = f"Host {host.name}"
    try:
        one.connect()
        one.become_root()
        clocks = "" if one.call("can_skew_clocks") else "; no libfaketime, so no faults on clocks"
    except ChaosError as error:
        return Finding(what=what, ok=False, found=f"{host.where} can't serve", mend=str(error))
    finally:
        one.close()
    how = {"root": "is root", "sudo": "may use sudo", "password": "may use sudo with the password"}[one.root_by]
    return Finding(what=what, ok=True, found=f"{host.where}, its nodes at {one.address}; {host.user} {how}{clocks}")


def _disk(out: Path) -> Finding:
    folder = next(path for path in (out.absolute(), *out.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    writable = os.access(folder, os.W_OK)
    found = f"{free / 2**30:.1f} GiB free in {folder}" + ("" if writable else ", not writable")
    fix = "free some space (`stormproof clean --keep failed`), or choose another folder with --out"
    return Finding(what="Disk", ok=writable and free >= LEAST_FREE_BYTES, found=found, mend=fix)
