"""Masters and settings as people write them; what executors lack; what Spark's errors mean."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.judging import executors, masters, shipping
from chaos.judging.executors import Probe, Remote, Unlike, versions
from chaos.judging.masters import MasterKind, parse, parse_conf, settings
from chaos.judging.spark_errors import sentence


@pytest.mark.parametrize(
    ("text", "url", "kind", "on_loopback"),
    [
        ("local", "local[1,4]", MasterKind.LOCAL, True),
        ("local[3]", "local[3,4]", MasterKind.LOCAL, True),
        ("local[3,9]", "local[3,9]", MasterKind.LOCAL, True),
        ("local-cluster[2, 1, 1024]", "local-cluster[2,1,1024]", MasterKind.LOCAL_CLUSTER, True),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077", MasterKind.STANDALONE, True),
        ("spark://localhost:1,[::1]:2", "spark://localhost:1,[::1]:2", MasterKind.STANDALONE, True),
        ("spark://127.0.0.1:1,far:2", "spark://127.0.0.1:1,far:2", MasterKind.STANDALONE, False),
        ("yarn", "yarn", MasterKind.PASSED_ON, False),
        ("k8s://https://far:6443", "k8s://https://far:6443", MasterKind.PASSED_ON, False),
    ],
)
def test_masters(text: str, url: str, kind: MasterKind, on_loopback: bool) -> None:
    found = parse(text)
    assert (found.url, found.kind, found.on_loopback) == (url, kind, on_loopback)


def test_without_a_master_all_cores_are_used_and_a_task_is_tried_again() -> None:
    assert parse().url.endswith(f",{masters.TASK_TRIES}]") and parse() == parse("local[*]")


@pytest.mark.parametrize(
    "text",
    ["mesos://h:1", "local[0]", "local[-1]", "local-cluster[2,1]", "spark://h", "spark://h:0", "spark://h:1,", "here"],
)
def test_another_kind_of_master_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(BadInput, match=r"is no Spark master: expected local\[N\], .*untried"):
        parse(text)


def test_settings_of_the_user_win_and_all_wrong_ones_are_told() -> None:
    conf = parse_conf(["spark.driver.memory=4g", "spark.x=a=b"])
    found = settings(parse("local-cluster[2,1,700]"), conf)
    assert (found["spark.driver.memory"], found["spark.x"]) == ("4g", "a=b")
    assert found["spark.executor.memory"] == "700m"
    with pytest.raises(BadInput) as caught:
        parse_conf(["driver.memory=1g", "spark.y", "spark.master=local"])
    assert len(caught.value.problems) == 3


def test_secrets(tmp_path: Path) -> None:
    drawn = [settings(parse("local-cluster[1,1,512]"), {})[masters.SECRET] for _ in range(2)]
    assert len(set(drawn)) == 2 and min(map(len, drawn)) >= 32
    there = parse("spark://h:1")
    assert settings(there, {})["spark.authenticate"] == "false"
    file = tmp_path / "secret"
    file.write_text("xyz\n")
    found = settings(there, {masters.SECRET_FILE: str(file)})
    assert (found["spark.authenticate"], found[masters.SECRET]) == ("true", "xyz")
    assert masters.SECRET_FILE not in found
    for text in (None, ""):
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(text)
        with pytest.raises(BadInput, match="secret"):
            settings(there, {masters.SECRET_FILE: str(file)})


def test_a_worker_like_the_driver_works_and_another_one_says_in_what_it_differs() -> None:
    here = versions()
    assert Probe(here)(0) == ""
    assert Remote("builtins", "abs", here)(-1) == 1
    other = {**here, "pyarrow": "1.2.3", "Python": "2.7"}
    told = Remote("builtins", "abs", other)(-1)
    assert isinstance(told, Unlike)
    assert f"pyarrow {here['pyarrow']}, not 1.2.3" in told.sentence and "not 2.7" in told.sentence
    assert f"numpy {here['numpy']}" not in told.sentence
    assert "no lacking (wanted: 1.0)" in executors.differences((("lacking", "1.0"),))


def test_our_packages_work_from_the_zip_file_that_executors_get(tmp_path: Path) -> None:
    path = shipping.write(tmp_path)
    again = tmp_path / "again"
    again.mkdir()
    assert shipping.write(again).read_bytes() == path.read_bytes()
    script = f"""
import sys
sys.path.insert(0, {str(path)!r})
import chaos
from chaos.judging.engine import registry
from reports.run_report.run_summary import RunSummary
assert chaos.__file__.startswith({str(path)!r}), chaos.__file__
assert not registry().broken, registry().broken
print(*sorted(registry().kernels))
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    from chaos.judging.engine import registry

    assert done.stdout.split() == " ".join(map(str, sorted(registry().kernels))).split(), done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "An error occurred while calling z:collect.\n: org.apache.x: [PYTHON_VERSION_MISMATCH] 3.9",
            "another version of Python",
        ),
        ("Job aborted: Python worker exited unexpectedly (crashed)", "a Python worker died each time"),
        ("failed 4 times: ExecutorLostFailure (executor 1 exited caused by ...)", "executors were lost too often"),
        ("java.lang.OutOfMemoryError: Java heap space", "an executor ran out of memory"),
        ('Cannot run program "python9": error=2', "an executor can't start the Python python9"),
        ("All masters are unresponsive! Giving up.", "connection to Spark's master was lost"),
        ("An error occurred while calling z:collect.\n: a.b.C: no such thing\n\tat x.y", "a.b.C: no such thing"),
        ("", "RuntimeError"),
    ],
)
def test_what_spark_says_becomes_a_sentence(text: str, words: str) -> None:
    found = sentence(RuntimeError(text))
    assert words in found and "\n" not in found and "An error occurred" not in found
