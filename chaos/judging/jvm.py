"""Spark's JVM, of which a process has one at a time.

It keeps the environment and the settings that it began with, and what sessions leave in it. Local sessions share one:
a start takes a second. A session at any other master has one of its own, which ends with it. The workers of a local
cluster write below the home that their JVM began with. And the secret that a local session drew stays with Spark's user
(``UserGroupInformation``), where it goes before the one that a master expects.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

from chaos.errors import MachineError

STDERR = 2
#: The longest that the end of a JVM is waited for before it is killed, in seconds.
END_S = 10.0
#: How the JVM begins to warn of a module that Spark asks for.
INCUBATOR = b"WARNING: Using incubator modules: "
#: What the network and the scheduler say of an error in many lines comes to the user as one sentence.
SILENT = (
    "org.apache.spark.network",
    "org.apache.spark.rpc",
    "org.apache.spark.deploy",
    "org.apache.spark.executor",
    "org.apache.spark.scheduler",
    "org.apache.spark.SparkContext",
    "org.apache.spark.util",
)
LOGGING = "\n".join(
    (
        "rootLogger.level = error",
        "rootLogger.appenderRef.stderr.ref = stderr",
        "appender.stderr.type = Console",
        "appender.stderr.name = stderr",
        "appender.stderr.target = SYSTEM_ERR",
        "appender.stderr.layout.type = PatternLayout",
        "appender.stderr.layout.pattern = spark: %p %c{1}: %m%n",
        # It changes the level of all others unless it has one, which has to be that of the root.
        "logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer",
        "logger.gateway.level = error",
        *(f"logger.l{n}.name = {name}\nlogger.l{n}.level = off" for n, name in enumerate(SILENT)),
        "",
    )
)


class _Ours:
    """The connection to the JVM that we have started, until we end it."""

    gateway: Any = None


def write_logging(folder: Path) -> str:
    """Write how a JVM is to log into a folder; return the option that makes it log so."""
    file = folder / "log4j2.properties"
    file.write_text(LOGGING, "utf-8")
    return f"-Dlog4j2.configurationFile=file:{file}"


def launch(conf: Any) -> Any:
    """Return the connection to the JVM that is up, or else to a new one with a ``SparkConf``. What it says goes to
    stderr, but for a warning that Spark's own choice of modules causes at every start."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return SparkContext._gateway
    source, end = os.pipe()
    threading.Thread(target=_pass_on, args=(source, STDERR), name="spark-stderr", daemon=True).start()
    with open(end, "wb") as stderr:
        _Ours.gateway = launch_gateway(conf, {"stderr": stderr})
    return _Ours.gateway


def make_way() -> None:
    """End the JVM that is up, so that the next one is new. Raises :class:`MachineError` while it is used, or when it is
    not ours."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        raise MachineError("Spark is in use in this process already: one session at a time can be open")
    if SparkContext._gateway is not None and SparkContext._gateway is not _Ours.gateway:
        raise MachineError("Spark was started in this process by other code: beside it only local[N] can be used")
    end()


def end() -> None:
    """End the JVM that we have started, if it is up, and wait until it has ended."""
    from pyspark import SparkContext

    gateway, _Ours.gateway = _Ours.gateway, None
    if gateway is None:
        return
    with SparkContext._lock:
        if SparkContext._gateway is gateway:
            SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    gateway.shutdown()
    process = gateway.proc
    with contextlib.suppress(OSError):  # it has ended already
        process.stdin.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _pass_on(source: int, stderr: int) -> None:
    """Write what comes from one file descriptor to another one, without the warning, until its end."""
    with open(source, "rb") as lines:
        for line in lines:
            if not line.startswith(INCUBATOR):
                with contextlib.suppress(OSError):  # nobody reads on
                    os.write(stderr, line)
