"""Sessions of all kinds in one process: none is told what an earlier one left in Spark's JVM."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chaos.judging.masters import SECRET_FILE
from chaos.judging.standalone import Cluster
from tests.chaos.judging.test_clusters import driver, left_in_spark

pytestmark = [pytest.mark.spark, pytest.mark.full]

#: Says what each session found, and at the end how many JVMs of those are up that had to end with their session.
SESSIONS = """
import sys
from chaos.errors import ChaosError
from chaos.judging import masters
from chaos.judging.spark import Session

processes = []

def ask(text, *conf):
    with Session(masters.parse(text), conf=masters.parse_conf(conf)) as session:
        try:
            print(session.map(abs, [-1]))
            if not text.startswith("local["):
                processes.append(session._context._gateway.proc)
        except ChaosError as error:
            print(error)
        if text == "local[1]":
            with Session(masters.parse(LOCAL_CLUSTER)) as second:
                try:
                    second.wait()
                except ChaosError as error:
                    print(error)
            print(session.map(abs, [-2]))

LOCAL_CLUSTER, url, right, wrong = "local-cluster[1,1,512]", *sys.argv[1:]
ask("local[1]")
ask(url, right)
ask(url, wrong)
ask(LOCAL_CLUSTER)
ask(LOCAL_CLUSTER)
ask("local[1]")
print(len(processes), sum(process.poll() is None for process in processes))
"""


def test_a_session_finds_nothing_of_the_ones_before_it(tmp_path: Path) -> None:
    before = left_in_spark()
    (tmp_path / "wrong").write_text("wrong")
    with Cluster(workers=1) as cluster:
        confs = [f"{SECRET_FILE}={path}" for path in (cluster.secret_file, tmp_path / "wrong")]
        done = driver(tmp_path, [SESSIONS, cluster.url, *confs], Path(sys.executable))
    refused = f"what listens at {cluster.url.removeprefix('spark://')} does not take our secret"
    local = ["[1]", "Spark is in use in this process already: one session at a time can be open", "[2]"]
    told = [line.partition(": give the one")[0] for line in done.stdout.splitlines()]
    assert told == [*local, "[1]", refused, "[1]", "[1]", *local, "3 0"], done.stderr
    assert "Exception" not in done.stderr and "Traceback" not in done.stderr
    assert left_in_spark() == before
