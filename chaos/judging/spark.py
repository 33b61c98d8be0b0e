"""A Spark that starts in the background and runs tasks in Python workers. The only file that imports pyspark."""

from __future__ import annotations

import contextlib
import importlib
import os
import shlex
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from chaos.errors import MachineError
from chaos.judging import class_archive

S = TypeVar("S")
R = TypeVar("R")

LOCALHOST = "127.0.0.1"
STDERR = 2
#: Where our packages are: workers find them before anything in the user's working directory.
ROOT = Path(__file__).resolve().parents[2]
#: Several runs a task keep small runs cheap; several tasks a core keep large shards balanced.
TASKS_PER_CORE = 4
#: How the JVM begins to warn of a module that Spark asks for.
INCUBATOR = b"WARNING: Using incubator modules: "
LOGGING = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


class Session:
    """Spark on the cores of this machine. The constructor returns at once; the first :meth:`map` waits for the start.

    One session at a time can be open in a process. Use it as a context manager, or call :meth:`close`. With
    ``full_speed`` its JVM takes longer to warm up and is faster then: for millions of keys to be checked in Java.
    """

    _stopping: ClassVar[threading.Thread | None] = None
    _open: ClassVar[Session | None] = None

    def __init__(self, *, full_speed: bool = False) -> None:
        self._full_speed = full_speed
        self._context: Any = None
        self._folder = tempfile.TemporaryDirectory(prefix="stormproof-spark-")
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._thread.start()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until Spark is up. Raises :class:`MachineError` when it could not be started."""
        self._thread.join()
        if isinstance(self._error, MachineError):
            raise self._error
        if self._error is not None:
            raise MachineError(
                f"Spark did not start: {str(self._error).strip() or type(self._error).__name__}. `stormproof doctor` "
                "tells what is missing; `--engine local` judges without Spark"
            ) from self._error

    def map(self, work: Callable[[S], R], tasks: Sequence[S]) -> list[R]:
        """``work(task)`` for each task, in one job; results in the order of the tasks. ``work`` is a function of a
        module of ours that workers can import."""
        self.wait()
        if not tasks:
            return []
        slices = min(len(tasks), self._context.defaultParallelism * TASKS_PER_CORE)
        results: list[R] = self._context.parallelize(tasks, slices).map(work).collect()
        return results

    @classmethod
    def open_jvm(cls) -> Any:
        """The JVM of the session that is up in this process, as py4j's view of it; None where none is up."""
        session = cls._open
        return None if session is None or session._context is None else session._context._jvm

    def close(self) -> None:
        """Stop Spark, if it did start, in the background: a stop takes a second that nobody needs to wait for. The
        next session waits for it; and the JVM ends with this process in any case."""
        self._thread.join()
        if Session._open is self:
            Session._open = None
        context, self._context = self._context, None
        if context is not None:
            Session._stopping = threading.Thread(target=self._stop, args=(context,), name="spark-stop", daemon=True)
            Session._stopping.start()

    def _stop(self, context: Any) -> None:
        context.stop()
        self._folder.cleanup()

    def _start(self) -> None:
        try:
            if Session._stopping is not None:
                Session._stopping.join()
            java = class_archive.find_java()
            folder = Path(self._folder.name)
            with _environment(java, _worker_python(folder)):
                self._context = _new_context(folder, self._full_speed)
            # The first job starts the Python workers; let that, too, overlap with what the caller does meanwhile.
            cores = self._context.defaultParallelism
            self._context.parallelize(range(cores), cores).foreach(_prepare_worker)
            Session._open = self
        except BaseException as error:
            self._error = error


def _prepare_worker(_: int) -> None:
    importlib.import_module("chaos.judging.engine").registry()


def _new_context(folder: Path, full_speed: bool) -> Any:
    from pyspark import SparkConf, SparkContext

    logging = folder / "log4j2.properties"
    logging.write_text(LOGGING, "utf-8")
    options = (f"-Dlog4j2.configurationFile=file:{logging}", *class_archive.java_options(full_speed=full_speed))
    conf = SparkConf()
    for name, value in _settings(" ".join(options)).items():
        conf.set(name, value)
    return SparkContext(conf=conf, gateway=_gateway(conf))


def _gateway(conf: Any) -> Any:
    """The connection to Spark's JVM, which a process has one of. What the JVM says goes to stderr, but for a warning
    that Spark's own choice of modules causes at every start."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return SparkContext._gateway
    told, end = os.pipe()
    threading.Thread(target=_pass_on, args=(told, STDERR), name="spark-stderr", daemon=True).start()
    with open(end, "wb") as stderr:
        return launch_gateway(conf, {"stderr": stderr})


def _pass_on(told: int, stderr: int) -> None:
    """Write what comes from one file descriptor to another one, without the warning, until its end."""
    with open(told, "rb") as lines:
        for line in lines:
            if not line.startswith(INCUBATOR):
                with contextlib.suppress(OSError):  # nobody reads on
                    os.write(stderr, line)


def _worker_python(folder: Path) -> Path:
    """A Python for the workers that imports pyspark as it is installed, with its bytecode.

    Spark puts a zipped copy of pyspark in front of the workers' path, which is compiled anew at every start: 0.8 s of
    the first job on two cores. Our own packages come first, whatever the user's working directory holds.
    """
    import pyspark

    roots = [ROOT, Path(pyspark.__file__).resolve().parent.parent]
    path = os.pathsep.join([*map(str, roots), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} "$@"\n', "utf-8")
    script.chmod(0o700)
    runs = os.access(script, os.X_OK)  # not where temporary files may not be executed
    return script if runs else Path(sys.executable)


def _settings(java_options: str) -> Mapping[str, str]:
    return {
        "spark.master": f"local[{os.cpu_count() or 1}]",
        "spark.app.name": "stormproof",
        "spark.driver.bindAddress": LOCALHOST,
        "spark.driver.host": LOCALHOST,
        # Its ports take nobody who doesn't know the secret, which a local master draws by itself: one of ours would
        # stand on the command line of its JVM.
        "spark.authenticate": "true",
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": os.pathsep.join(map(str, class_archive.law_jars())),
        "spark.driver.extraJavaOptions": java_options,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
        "spark.python.worker.reuse": "true",
    }


@contextlib.contextmanager
def _environment(java: Path, worker_python: Path) -> Iterator[None]:
    """Variables that Spark's launcher reads, set only while it starts."""
    wanted = {
        "JAVA_HOME": str(java.parent.parent),
        "PYSPARK_PYTHON": str(worker_python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",
        "SPARK_LOCAL_IP": LOCALHOST,
        "SPARK_LOCAL_HOSTNAME": "localhost",
        "SPARK_LAUNCHER_OPTS": " ".join((*class_archive.JVM_OPTIONS, "-Xshare:auto")),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def rehearse() -> None:
    """Start Spark and run one job, so that the JVM loads what every start loads."""
    with Session() as session:
        session.map(abs, list(range(4)))
    if Session._stopping is not None:
        Session._stopping.join()
