"""Executors as processes of their own, whose Python has none of our packages: a local cluster, and a master of ours."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

from chaos.judging.masters import SECRET_FILE
from chaos.judging.standalone import Cluster
from tests.chaos.judging.test_engine import busy
from tests.chaos.judging.test_many_runs import META
from tests.reports.comparison.test_pair import recorded
from tests.stormproof import strangers
from tests.stormproof.small_runs import EXPERIMENT
from tests.stormproof.small_s3 import serving

pytestmark = [pytest.mark.spark, pytest.mark.full]
ROOT = Path(__file__).parents[3]
#: What the package of Spark does not bring along.
LIBRARIES = ("numpy", "pyarrow")
TIMEOUT_S = 600
RUNS = 3
#: So often small runs are judged, so that this takes some seconds.
MANY = 20

#: Judges small runs on a master while one of its executors is killed, then one as if it were large; and finds what it
#: finds in this process.
KILLING = """
import os, signal, sys
from pathlib import Path
from chaos.history import pieces, segments
from chaos.judging import masters
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run, examine_runs
from chaos.judging.spark import Session
from reports import page_summary

folder, url, *conf = sys.argv[1:]
runs = sorted(Path(folder).iterdir())
killed = []

def executors():
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\\0")
        except (OSError, ValueError):
            continue
        if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and url_of_driver.encode() in words:
            yield int(entry.name)

def follow(done, whole):
    if not killed and done < whole and (found := sorted(executors())):
        os.kill(found[0], signal.SIGKILL)
        killed.append((found[0], done, whole))

def laws(runs, session=None, follow=None):
    found = examine_runs(runs, session=session, on_progress=follow)
    return [verdict.laws for verdict in judge(found, engine="spark", write=False)]

here = laws(runs)
with Session(masters.parse(url), conf=masters.parse_conf(conf)) as session:
    session.wait()
    port = session._context.getConf().get("spark.driver.port")
    url_of_driver = f"spark://CoarseGrainedScheduler@127.0.0.1:{port}"
    session.map(abs, [1])
    assert laws(runs * MANY, session, follow) == here * MANY
    assert killed and killed[0][1] < len(runs), "an executor was killed while they were examined"
    assert laws(runs, session) == here, "a second job"
    pieces.LARGE_ROWS, segments.SEGMENT_ROWS = 500, 200
    found = examine_run(runs[0], session=session, summary=page_summary)
    (large,) = judge([found], engine="spark", write=False)
    assert large.laws == here[0] and found.summarised is not None, "a large one"
print(len(here), killed)
""".replace("MANY", str(MANY))

#: Judges keys, in Java, on the executors of a local cluster.
KEYS = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
from chaos.judging import masters
from chaos.judging.spark import Session
from checkers.linearizable import checker, jar
from checkers.linearizable.history import Function

jar.build()
count = 300
both = (Function.WRITE, Function.READ)
rows = [(key, f, key, 10 * n, 10 * n + 5) for key in range(count) for n, f in enumerate(both)]
rows.append((7, Function.READ, 5000, 100, 105))
key, f, value, call, ret = zip(*rows)
columns = {"key": key, "process": [0] * len(key), "f": [int(one) for one in f]}
table = pa.table({**columns, "value": value, "call": call, "ret": ret})
pq.write_table(table, sys.argv[1] + "/keys.parquet")
with Session(masters.parse(sys.argv[2])) as session:
    verdict = checker.check_keys(session, [sys.argv[1] + "/keys.parquet"], "register")
print(verdict.validity, verdict.counts["keys"], verdict.counts["invalid"])
"""

#: Judges two runs with workers that have memory for one of them.
HUNGRY = """
import sys
from pathlib import Path
from chaos.judging import masters
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run, examine_runs
from chaos.judging.spark import Session

runs = [*map(Path, sys.argv[1:])]
with Session(masters.parse("local[1]"), conf={"spark.executor.pyspark.memory": "700m"}) as session:
    small, large = judge(examine_runs(runs, session=session), engine="spark", write=False)
assert small.laws == judge([examine_run(runs[0])], engine="spark", write=False)[0].laws
print(*sorted({str(law.validity) for law in large.laws} - {"NOT APPLICABLE"}))
print(large.why[0])
"""

#: Has runs of so few rows count as large.
LARGE = "from chaos.history import pieces; pieces.LARGE_ROWS = 200; "

#: Is refused, and says why.
REFUSED = """
import sys
from chaos.errors import ChaosError
from chaos.judging import masters
from chaos.judging.spark import Session

for conf in sys.argv[2:]:
    with Session(masters.parse(sys.argv[1]), conf=masters.parse_conf(conf.split())) as session:
        try:
            session.wait()
            print("taken")
        except ChaosError as error:
            print(error)
"""


def bare(folder: Path, *, fake: str = "") -> Path:
    """A Python with numpy and pyarrow alone, and perhaps with a library of another version in its place."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in LIBRARIES:
        spec = find_spec(name)
        assert spec is not None and spec.submodule_search_locations
        source = Path(spec.submodule_search_locations[0])
        for path in [source, *source.parent.glob(f"{name}.libs")]:
            (site / path.name).symlink_to(path)
    if fake:
        (site / fake).unlink()
        (site / fake).mkdir()
        (site / fake / "__init__.py").write_text("__version__ = '1.2.3'\n")
    python = folder / "bin" / "python"
    said = [subprocess.run([python, "-c", f"import {name}"], cwd="/").returncode for name in ("numpy", "chaos")]
    assert said == [0, 1], "it has numpy, and none of our packages"
    return python


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bare(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("histories")
    for seed in range(RUNS):
        strangers.recorded(folder / f"run-{seed}", busy(seed).recorded(), seed=seed, **META)
    return folder


@pytest.fixture(scope="module")
def keys() -> Iterator[None]:
    """Keys for a store, in the environment of the driver, and of the workers, which hand them on to executors."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "anything")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


@pytest.fixture(scope="module")
def cluster(keys: None) -> Iterator[Cluster]:
    with Cluster(workers=2) as started:
        yield started
        assert len(started.pids) == 3, "all of them are still up"
    assert started.pids == ()


def driver(cwd: Path, words: list[str], executors_python: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python that has our packages, from elsewhere; only its own path leads to them."""
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{words[0]}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-P", "-c", script, *words[1:]],
        cwd=cwd,
        env={**environment, "PYSPARK_PYTHON": str(executors_python)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def left_in_spark() -> set[Path]:
    """What workers have left where Spark is installed, ever."""
    spec = find_spec("pyspark")
    assert spec is not None and spec.submodule_search_locations
    return set(Path(spec.submodule_search_locations[0]).glob("work/*"))


def test_a_local_cluster_whose_executor_is_killed_finds_the_same(histories: Path, python: Path, tmp_path: Path) -> None:
    before = left_in_spark()
    done = driver(tmp_path, [KILLING, str(histories), "local-cluster[2,1,1024]"], python)
    assert done.returncode == 0 and done.stdout.startswith(f"{RUNS} [("), done.stderr
    assert left_in_spark() == before
    assert list(tmp_path.iterdir()) == []


def test_keys_are_judged_in_java_on_executors_of_their_own(python: Path, tmp_path: Path) -> None:
    done = driver(tmp_path, [KEYS, str(tmp_path), "local-cluster[1,1,1024]"], python)
    assert done.stdout.split() == ["INVALID", "300", "1"], done.stderr


def test_a_run_for_which_workers_have_no_memory_is_unknown(python: Path, tmp_path: Path) -> None:
    """It has few rows, with much in each."""
    rows = busy(3).recorded()
    values = pa.array([json.dumps({"x": "x" * 3_000})] * rows.num_rows).dictionary_encode()
    many = pa.concat_tables([rows.set_column(rows.column_names.index("value"), "value", values)] * 250)
    many = many.set_column(0, "index", pa.array(range(many.num_rows)))
    runs = [strangers.recorded(tmp_path / str(table.num_rows), table, **META) for table in (rows, many)]
    done = driver(tmp_path, [HUNGRY, *map(str, runs)], python)
    assert re.match(r"UNKNOWN\n.*(memory|malloc)", done.stdout), done.stdout + done.stderr


def executors_of(pid: int) -> list[int]:
    """The executors below a process."""
    parents: dict[int, int] = {}
    commands: dict[int, bytes] = {}
    for entry in Path("/proc").iterdir():
        try:
            commands[int(entry.name)] = (entry / "cmdline").read_bytes()
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found = []
    for one, command in commands.items():
        above = one
        while above in parents and above != pid:
            above = parents[above]
        if above == pid and b"CoarseGrainedExecutorBackend" in command:
            found.append(one)
    return found


def test_ctrl_c_ends_a_check_and_its_executors(tmp_path: Path, python: Path) -> None:
    recorded(tmp_path / "run")
    check = ["check", "run", "--master", "local-cluster[1,1,1024]"]
    words = [sys.executable, "-m", "stormproof", *check]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
    process = subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := executors_of(process.pid)) and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    assert found, "there are executors"
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 3 and told.splitlines()[-1] == "error: interrupted", told
    while any(Path(f"/proc/{pid}").exists() for pid in found) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in found), "they ended with the command"
    assert not (tmp_path / "run" / "verdict.json").exists()


def test_a_master_of_ours_whose_executor_is_killed_finds_the_same(
    cluster: Cluster, histories: Path, python: Path, tmp_path: Path
) -> None:
    conf = f"{SECRET_FILE}={cluster.secret_file}"
    before = left_in_spark()
    done = driver(tmp_path, [KILLING, str(histories), cluster.url, conf], python)
    assert done.returncode == 0 and done.stdout.startswith(f"{RUNS} [("), done.stderr
    assert left_in_spark() == before


def test_a_master_refuses_whoever_does_not_know_its_secret(cluster: Cluster, python: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("wrong")
    confs = ["spark.driver.memory=512m", f"{SECRET_FILE}={tmp_path / 'wrong'}"]
    confs.append(f"{SECRET_FILE}={cluster.secret_file} spark.executor.cores=2")
    done = driver(tmp_path, [REFUSED, cluster.url, *confs], python)
    none, wrong, greedy = done.stdout.splitlines()
    assert "expects a secret" in none and SECRET_FILE in none
    assert "does not take our secret" in wrong
    assert "gave no executor within 60 s" in greedy
    assert "netty" not in done.stderr.lower() and "Exception" not in done.stderr


def test_executors_with_another_library_are_named(cluster: Cluster, tmp_path: Path) -> None:
    python = bare(tmp_path / "old", fake="pyarrow")
    done = driver(tmp_path, [REFUSED, cluster.url, f"{SECRET_FILE}={cluster.secret_file}"], python)
    assert "an executor (" in done.stdout and "has pyarrow 1.2.3, not " in done.stdout, done.stdout + done.stderr


def test_check_judges_several_runs_on_a_master_of_ours(cluster: Cluster, python: Path, tmp_path: Path) -> None:
    stormproof = "from stormproof import cli; sys.argv[1:] = sys.argv[2:]; cli.main()"
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    words = ["run", "small.yaml", "--on", "sim", "--seeds", "0..1", "--engine", "local", "--keep", "all"]
    made = driver(tmp_path, [stormproof, "-", *words], python)
    assert made.returncode == 0, made.stderr
    conf = f"{SECRET_FILE}={cluster.secret_file}"
    words = ["check", "runs/*", "--master", cluster.url, "--conf", conf, "--json"]
    done = driver(tmp_path, [stormproof, "-", *words], python)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [(run["verdict"], run["engine"]) for run in told] == [("VALID", "spark")] * 2
    (tmp_path / "served" / "bucket").mkdir(parents=True)
    with serving(tmp_path / "served") as (address, asked):
        copies = f"s3://bucket/of%20jobs?scheme=http&region=nowhere&endpoint_override={address}"
        again = driver(tmp_path, [LARGE + stormproof, "-", *words, "--copies", copies], python)
    assert [(run["verdict"], run["digest"]) for run in json.loads(again.stdout)] == [
        ("VALID", run["digest"]) for run in told
    ], again.stderr
    assert any(re.search(r"/stormproof-\w+/0$", path) for path in asked), "the executors have read them there"
    assert not [path for path in (tmp_path / "served").rglob("*") if path.is_file()], "they are removed"
