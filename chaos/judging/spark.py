"""A Spark that starts in the background and runs tasks in Python workers. It and ``jvm`` alone import pyspark."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from chaos.errors import ChaosError, MachineError
from chaos.judging import class_archive, greeting, jvm, masters, shipping, spark_job
from chaos.judging.executors import Probe, Remote, Unlike, versions
from chaos.judging.masters import LOCALHOST, Master, MasterKind
from chaos.judging.registry import registry
from chaos.judging.spark_errors import sentence
from chaos.judging.spark_job import OnProgress
from chaos.judging.spark_shuffle import Bring, Shuffled

S = TypeVar("S")
G = TypeVar("G")
R = TypeVar("R")

#: Where our packages are: workers find them before anything in the user's working directory.
ROOT = Path(__file__).resolve().parents[2]
#: Several runs a task keep small runs cheap; several tasks a core keep large shards balanced.
TASKS_PER_CORE = 4
#: A master that gives no executor within this time has none to give.
PATIENCE_S = 60.0
#: The longest that a stop of executors is waited for, in seconds.
STOP_S = 10.0


class Session:
    """Spark on the cores of this machine, or wherever ``master`` is. The constructor returns at once; the first
    :meth:`map` waits for the start.

    One session at a time can be open in a process. Local ones share a JVM, whose settings are those of the first; at
    any other master a session has one of its own. Use it as a context manager, or call :meth:`close`. ``conf``:
    settings of Spark, which win over ours. With ``full_speed`` its JVM takes longer to warm up and is faster then: for
    millions of keys to be checked in Java. ``packages``: those of ours that executors need; the laws, unless given.
    """

    _stopping: ClassVar[threading.Thread | None] = None
    _open: ClassVar[Session | None] = None

    def __init__(
        self,
        master: Master | None = None,
        *,
        conf: Mapping[str, str] | None = None,
        full_speed: bool = False,
        packages: Sequence[str] = shipping.PACKAGES,
    ) -> None:
        self.master = masters.parse() if master is None else master
        self._conf = dict(conf or {})
        self._full_speed = full_speed
        self._packages = packages
        self._context: Any = None
        self._folder = tempfile.TemporaryDirectory(prefix="stormproof-spark-", ignore_cleanup_errors=True)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._thread.start()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until Spark is up. Raises :class:`ChaosError` when it could not be started, or when its executors can't
        be trusted with our tasks."""
        self._thread.join()
        if isinstance(self._error, ChaosError):
            raise self._error
        if self._error is not None:
            raise MachineError(
                f"Spark did not start at {self.master.url}: {sentence(self._error)}. `stormproof doctor` shows what is "
                "missing; `--engine local` judges without Spark"
            ) from self._error

    def map(self, work: Callable[[S], R], tasks: Sequence[S], on_progress: OnProgress | None = None) -> list[R]:
        """Return ``work(task)`` for each task, in one job; results in the order of the tasks. ``work`` is a function of
        a module of ours that workers can import; ``on_progress`` is called with how many of the tasks are done.

        After Ctrl-C the job is cancelled. Raises :class:`MachineError` when executors have other versions than this
        process, and :class:`JobFailed` when the job came to nothing for any other reason.
        """
        self.wait()
        if not tasks:
            return []
        slices = min(len(tasks), self._context.defaultParallelism * TASKS_PER_CORE)
        rdd = self._context.parallelize(tasks, slices).map(self._called(work))
        results = spark_job.collect(self._context, rdd, on_progress, len(tasks), self._patience())
        for one in results:
            if isinstance(one, Unlike):
                raise MachineError(one.sentence)
        return results

    def shuffled(
        self, work: Callable[[G, S], Iterable[tuple[int, Any]]], given: G, tasks: Sequence[S], buckets: int
    ) -> Shuffled:
        """Return so many buckets, to which ``work(given, task)`` of each task brings blocks: (bucket, block). Nothing
        is done before somebody asks about a bucket."""
        self.wait()
        bring = Bring(self._called(work), self._context.broadcast(given))
        rdd = self._context.parallelize(tasks, len(tasks)).flatMap(bring)
        return Shuffled(self._context, rdd.partitionBy(buckets, int), self._called, self._patience())

    def _called(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return what workers call for a function of a module of ours."""
        if self.master.kind is MasterKind.LOCAL:
            return work
        return Remote(work.__module__, work.__qualname__, versions())

    @classmethod
    def open_jvm(cls) -> Any:
        """Return the JVM of the session that is up in this process, as py4j's view of it; None where none is up."""
        session = cls._open
        return None if session is None or session._context is None else session._context._jvm

    def close(self) -> None:
        """Stop Spark, if it did start; on this machine's cores in the background: a stop takes a second that nobody
        needs to wait for. The next session waits for it; and the JVM ends with this process in any case."""
        self._thread.join()
        if Session._open is self:
            Session._open = None
        context, self._context = self._context, None
        if context is not None:
            Session._stopping = threading.Thread(target=self._stop, args=(context,), name="spark-stop", daemon=True)
            Session._stopping.start()
            if self.master.kind is not MasterKind.LOCAL:  # executors write into the folder until they have ended
                Session._stopping.join(STOP_S)

    def _stop(self, context: Any) -> None:
        with contextlib.suppress(Exception):  # it may have lost its master, and be stopped already
            context.stop()
        if self.master.kind is not MasterKind.LOCAL:
            jvm.end()
        self._folder.cleanup()

    def _start(self) -> None:
        try:
            if Session._stopping is not None:
                Session._stopping.join()
            wanted = masters.settings(self.master, self._conf)
            java = class_archive.find_java()
            masters.reach(self.master)
            folder = Path(self._folder.name)
            with _environment(java, self.master, wanted, folder):
                self._context = _new_context(self.master, wanted, folder, self._full_speed)
            # The first job starts the Python workers; let that, too, overlap with what the caller does meanwhile.
            if self.master.kind is MasterKind.LOCAL:
                cores = self._context.defaultParallelism
                self._context.parallelize(range(cores), cores).foreach(_prepare_worker)
            else:
                self._ship(folder)
            Session._open = self
        except BaseException as error:
            self._error = error

    def _ship(self, folder: Path) -> None:
        """Give the executors our packages, and see that they are like this process."""
        before = list(sys.path)
        self._context.addPyFile(str(shipping.write(folder, self._packages)))
        sys.path[:] = before  # pyspark puts what it ships in front of our own packages, in this process too
        cores = max(self._context.defaultParallelism, self.master.workers)
        probes = self._context.parallelize(range(TASKS_PER_CORE * cores), TASKS_PER_CORE * cores).map(Probe(versions()))
        wrong = spark_job.collect(self._context, probes, None, 0, self._patience())
        if any(wrong):
            raise MachineError("; ".join(sorted(set(filter(None, wrong)))))

    def _patience(self) -> float | None:
        return None if self.master.kind is MasterKind.LOCAL else PATIENCE_S


def _prepare_worker(_: int) -> None:
    registry()


def _new_context(master: Master, settings: Mapping[str, str], folder: Path, full_speed: bool) -> Any:
    from pyspark import SparkConf, SparkContext

    alone = master.kind is not MasterKind.LOCAL
    if alone:
        jvm.make_way()
    jars = list(map(str, class_archive.law_jars()))
    # The archive of classes fits the class path of a local session only.
    options = class_archive.java_options(full_speed=full_speed, archived=not alone)
    wanted = dict(settings)
    given = wanted.get("spark.driver.extraJavaOptions", "")
    wanted["spark.driver.extraJavaOptions"] = " ".join((jvm.write_logging(folder), *options, *filter(None, [given])))
    given = wanted.get("spark.driver.extraClassPath", "")
    wanted["spark.driver.extraClassPath"] = os.pathsep.join([*jars, *filter(None, [given])])
    if not alone:
        wanted.setdefault("spark.executorEnv.PYTHONPATH", str(ROOT))
    elif jars:
        wanted["spark.jars"] = ",".join([*jars, *filter(None, [wanted.get("spark.jars", "")])])
    secret = wanted.pop(masters.SECRET, "")
    conf = SparkConf(loadDefaults=False)
    for name, value in wanted.items():
        conf.set(name, value)
    gateway = jvm.launch(conf)
    try:
        if secret:  # only now: what is set before stands on the command line of the JVM
            conf.set(masters.SECRET, secret)
        greeting.greet(gateway.jvm, conf, master)
        return SparkContext(conf=conf, gateway=gateway)
    except BaseException:
        if alone:
            jvm.end()
        raise


def _worker_python(folder: Path) -> Path:
    """Return a Python for the workers that imports pyspark as it is installed, with its bytecode.

    Spark puts a zipped copy of pyspark in front of the workers' path, which is compiled again at every start: 0.8 s of
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


@contextlib.contextmanager
def _environment(java: Path, master: Master, settings: Mapping[str, str], folder: Path) -> Iterator[None]:
    """Variables that Spark's launcher reads, set only while it starts."""
    wanted = {
        "JAVA_HOME": str(java.parent.parent),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONSAFEPATH": "1",
        "SPARK_LAUNCHER_OPTS": " ".join((*class_archive.JVM_OPTIONS, "-Xshare:auto")),
    }
    if master.kind is MasterKind.LOCAL:
        wanted["PYSPARK_PYTHON"] = str(_worker_python(folder))
    elif named := settings.get(masters.PYTHON, os.environ.get("PYSPARK_PYTHON", "")):
        wanted["PYSPARK_PYTHON"] = named
    elif master.on_loopback:
        wanted["PYSPARK_PYTHON"] = sys.executable
    if master.on_loopback:
        wanted |= {"SPARK_LOCAL_IP": LOCALHOST, "SPARK_LOCAL_HOSTNAME": "localhost"}
    if master.kind is MasterKind.LOCAL_CLUSTER:
        wanted["SPARK_HOME"] = str(_home(folder))
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


def _home(folder: Path) -> Path:
    """Spark's home, with links to what is installed: the workers of a local cluster write into it."""
    import pyspark

    home = folder / "home"
    home.mkdir()
    for path in Path(pyspark.__file__).resolve().parent.iterdir():
        if path.name != "work":
            (home / path.name).symlink_to(path)
    return home


def rehearse() -> None:
    """Start Spark and run one job, so that the JVM loads what every start loads."""
    with Session() as session:
        session.map(abs, list(range(4)))
    if Session._stopping is not None:
        Session._stopping.join()
