"""Which Spark is asked: the kinds of masters, and the settings that a session begins with at each of them."""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from chaos.errors import BadInput, MachineError

LOCALHOST = "127.0.0.1"
#: So often a task is tried before its job fails. Spark itself tries once on a local master, and then one worker that
#: was killed would fail all of it.
TASK_TRIES = 4
CONNECT_TIMEOUT_S = 5.0
#: Starting fast matters more than peak speed: kernels run in Python, the JVM only starts them and moves bytes.
EXECUTOR_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SECRET = "spark.authenticate.secret"
#: A file with the secret, for a master that expects one: a command line can be read by everyone on a machine.
SECRET_FILE = "spark.authenticate.secret.file"
#: The Python of executors, where it isn't the one that PYSPARK_PYTHON names.
PYTHON = "spark.pyspark.python"
_ADDRESS = re.compile(r"([^\s:,/]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")
_EXPECTED = (
    "expected local[N], local-cluster[WORKERS,CORES,MIB], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"
    " (the last two are passed on to Spark and untried)"
)


class MasterKind(StrEnum):
    """``LOCAL``: workers of this process's own JVM; ``LOCAL_CLUSTER``: executors as processes of this machine;
    ``STANDALONE``: those of a master that is up already; ``PASSED_ON``: what Spark understands and we have not tried.
    """

    LOCAL = "local"
    LOCAL_CLUSTER = "local-cluster"
    STANDALONE = "spark"
    PASSED_ON = "passed on"


@dataclass(frozen=True, slots=True, kw_only=True)
class Master:
    """Where a session runs its jobs. ``url`` as Spark wants it; ``workers`` of a local cluster, with ``memory_mib`` for
    each; ``addresses`` (host, port) of stand-alone masters, of which one leads."""

    url: str
    kind: MasterKind
    workers: int = 0
    memory_mib: int = 0
    addresses: tuple[tuple[str, int], ...] = ()

    @property
    def on_loopback(self) -> bool:
        """Whether all of it is on this machine, so that no port needs to be open to another one."""
        if self.kind is MasterKind.STANDALONE:
            return all(_is_loopback(host) for host, _ in self.addresses)
        return self.kind is not MasterKind.PASSED_ON


def parse(text: str = "") -> Master:
    """Return the master that a URL means; without one all cores of this machine. Raises :class:`BadInput` for any
    other."""
    if found := re.fullmatch(r"local(?:\[(\*|[1-9]\d*)(?:,([1-9]\d*))?\])?", text or "local[*]"):
        cores, tries = found[1] or "1", found[2] or str(TASK_TRIES)
        cores = str(os.cpu_count() or 1) if cores == "*" else cores
        return Master(url=f"local[{cores},{tries}]", kind=MasterKind.LOCAL)
    if found := re.fullmatch(r"local-cluster\[ *([1-9]\d*) *, *([1-9]\d*) *, *([1-9]\d*) *\]", text):
        return Master(
            url=f"local-cluster[{found[1]},{found[2]},{found[3]}]",
            kind=MasterKind.LOCAL_CLUSTER,
            workers=int(found[1]),
            memory_mib=int(found[3]),
        )
    if text.startswith("spark://"):
        pairs = [_ADDRESS.fullmatch(one) for one in text.removeprefix("spark://").split(",")]
        addresses = tuple((pair[1].strip("[]"), int(pair[2])) for pair in pairs if pair and 0 < int(pair[2]) < 65_536)
        if len(addresses) == len(pairs):
            return Master(url=text, kind=MasterKind.STANDALONE, addresses=addresses)
    if text == "yarn" or re.fullmatch(r"k8s://\S+", text):
        return Master(url=text, kind=MasterKind.PASSED_ON)
    raise BadInput(f"{text!r} is no Spark master: {_EXPECTED}")


def parse_conf(pairs: Iterable[str]) -> dict[str, str]:
    """Spark's settings from ``KEY=VALUE``. Raises :class:`BadInput` that names every one that is none."""
    found, problems = {}, []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"spark\.[A-Za-z0-9_.-]+", name):
            problems.append(f"{pair!r} is no setting of Spark: expected spark.NAME=VALUE")
        elif name == "spark.master":
            problems.append(f"{pair!r}: name the master with --master")
        else:
            found[name] = value
    if problems:
        raise BadInput(*problems)
    return found


def settings(master: Master, conf: Mapping[str, str]) -> dict[str, str]:
    """Return what a session is configured with: what ``conf`` says and, where it is silent, what suits the kind of
    master.

    The secret is read from the file that :data:`SECRET_FILE` names. Raises :class:`BadInput` when it can't be.
    """
    wanted = {
        "spark.app.name": "stormproof",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.task.maxFailures": str(TASK_TRIES),
        "spark.python.worker.reuse": "true",
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
    }
    if master.on_loopback:
        wanted |= {"spark.driver.bindAddress": LOCALHOST, "spark.driver.host": LOCALHOST}
    if master.kind is not MasterKind.LOCAL:
        wanted["spark.executor.extraJavaOptions"] = EXECUTOR_OPTIONS
    if master.kind is MasterKind.LOCAL_CLUSTER:
        wanted["spark.executor.memory"] = f"{master.memory_mib}m"
    wanted |= conf
    if file := wanted.pop(SECRET_FILE, ""):
        wanted[SECRET] = _read_secret(Path(file))
    # The ports of a session take nobody who doesn't know the secret. Spark itself draws it for most masters; one that
    # is up already has one if its owner says so.
    if master.kind is MasterKind.LOCAL_CLUSTER:
        wanted.setdefault(SECRET, secrets.token_hex(32))
    wanted.setdefault("spark.authenticate", str(master.kind is not MasterKind.STANDALONE or SECRET in wanted).lower())
    return {**wanted, "spark.master": master.url}


def _read_secret(file: Path) -> str:
    try:
        secret = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{SECRET_FILE}: {file} can't be read: {error}") from error
    if not secret:
        raise BadInput(f"{SECRET_FILE}: {file} is empty")
    return secret


def reach(master: Master) -> None:
    """Check that a master can be reached. Raises :class:`MachineError` when nothing listens where the masters should
    be: Spark itself takes a minute to find that out, and says it in many lines."""
    problems = []
    for host, port in master.addresses:
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
            return
        except OSError as error:
            problems.append(f"{host}:{port}: {error.strerror or error}")
    if problems:
        raise MachineError(f"no Spark master can be reached at {master.url} ({'; '.join(problems)}): is it up?")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
