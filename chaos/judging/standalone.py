"""A stand-alone master of Spark and its workers, as processes of this machine: from the installed package, on loopback,
with a secret.

``python -m chaos.judging.standalone`` starts one and keeps it until Ctrl-C.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from chaos.errors import ChaosError, MachineError
from chaos.judging.class_archive import JVM_OPTIONS, find_java
from chaos.judging.masters import LOCALHOST, SECRET, SECRET_FILE

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.1
#: What a master or a worker needs for itself; executors have their own.
DAEMON_MEMORY = "256m"
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
"""
#: How they say, in their logs, that they are up.
MASTER_UP = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER_UP = re.compile(r"Successfully registered with master (\S+)")
_PR_SET_PDEATHSIG = 1


class Cluster:
    """A master with ``workers`` of so many ``cores`` and so much memory each. The constructor returns once all of them
    are up; use it as a context manager, or call :meth:`close`. They end with this process, however it ends.

    Everything that they write goes below one temporary folder. Raises :class:`MachineError` when one does not start.
    """

    def __init__(self, *, workers: int = 2, cores: int = 1, memory_mib: int = 1024) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="stormproof-spark-")
        self._processes: list[subprocess.Popen[bytes]] = []
        folder = Path(self._folder.name)
        self.secret_file = folder / "secret"
        try:
            self._write_files(folder)
            self._environment = _environment(folder)
            shared = ["--host", LOCALHOST, "--port", "0", "--webui-port", "0"]
            shared += ["--properties-file", str(folder / "spark.conf")]
            self._launch("master", [MASTER, *shared])
            self.url = self._await("master", MASTER_UP)
            for number in range(workers):
                size = ["--cores", str(cores), "--memory", f"{memory_mib}m"]
                place = ["--work-dir", str(folder / "work" / str(number))]
                self._launch(f"worker-{number}", [WORKER, *shared, *size, *place, self.url])
            for number in range(workers):
                self._await(f"worker-{number}", WORKER_UP)
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that are up: the master first, then the workers."""
        return tuple(process.pid for process in self._processes if process.poll() is None)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all of them, the workers first: they end their executors."""
        for process in reversed(self._processes):
            process.terminate()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for process in reversed(self._processes):
            try:
                process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        self._folder.cleanup()

    def _write_files(self, folder: Path) -> None:
        secret = secrets.token_hex(32)
        settings = {"spark.authenticate": "true", SECRET: secret}
        settings |= {"spark.ui.killEnabled": "false", "spark.master.rest.enabled": "false"}  # they ask for no secret
        for path, text in (
            (self.secret_file, f"{secret}\n"),
            (folder / "spark.conf", "".join(f"{name} {value}\n" for name, value in settings.items())),
            (folder / "log4j2.properties", LOGGING),
        ):
            path.touch(mode=0o600)
            path.write_text(text, "utf-8")

    def _launch(self, name: str, command: Sequence[str]) -> None:
        home = Path(self._environment["SPARK_HOME"])
        with self._log(name).open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *command],
                    env=self._environment,
                    cwd=self._folder.name,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for us alone: we end them in order
                    preexec_fn=_end_with_parent,
                )
            )

    def _log(self, name: str) -> Path:
        return Path(self._folder.name) / f"{name}.log"

    def _await(self, name: str, words: re.Pattern[str]) -> str:
        """Return what a log says in the place of the words' first group, once it does."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            text = self._log(name).read_text("utf-8", errors="replace")
            if found := words.search(text):
                return found[1]
            ended = any(process.poll() is not None for process in self._processes)
            if ended or time.monotonic() > deadline:
                last = text.strip().splitlines()[-1:] or ["it said nothing"]
                raise MachineError(f"Spark's {name} did not start: {last[0][:500]}")
            time.sleep(POLL_S)


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _environment(folder: Path) -> dict[str, str]:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise MachineError("Spark is not installed: install stormproof again")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return {
        **kept,
        "JAVA_HOME": str(find_java().parent.parent),
        "SPARK_HOME": spec.submodule_search_locations[0],
        "SPARK_CONF_DIR": str(folder),
        "SPARK_LOCAL_IP": LOCALHOST,  # the address of their web pages, too
        "SPARK_LOCAL_HOSTNAME": LOCALHOST,
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": DAEMON_MEMORY,
        "SPARK_DAEMON_JAVA_OPTS": " ".join(
            (*JVM_OPTIONS, f"-Dlog4j2.configurationFile=file:{folder / 'log4j2.properties'}")
        ),
    }


def main() -> int:
    """Start a cluster, say how to use it, and keep it until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m chaos.judging.standalone", description=main.__doc__)
    parser.add_argument("--workers", type=int, default=2, help="how many (default: 2)")
    parser.add_argument("--cores", type=int, default=1, help="of each worker (default: 1)")
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB", help="of each worker (default: 1024)")
    given = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        with Cluster(workers=given.workers, cores=given.cores, memory_mib=given.memory) as cluster:
            print(f"--master {cluster.url} --conf {SECRET_FILE}={cluster.secret_file}", flush=True)
            print(f"processes: {', '.join(map(str, cluster.pids))}; Ctrl-C ends them", file=sys.stderr, flush=True)
            stop.wait()
    except ChaosError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
