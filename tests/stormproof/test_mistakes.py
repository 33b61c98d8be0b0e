"""Mistakes that people make: each is one clear error with its line, what was expected and the nearest word, and
nothing runs or is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stormproof import cli

GOOD = """name: good
system:
  reference: {brokers: 3, queues: 1}
duration: 8s
workloads:
  - queue: {producers: 2, consumers: 1, rate_per_s: 20}
faults:
  - kill: {target: master}
    at: 2s
    for: 1s
"""
KILL = "- kill: {target: master}"
#: What stands there instead, and what is said, by what it takes the place of.
IN_FILES = [
    ("brokers: 3", "broker: 3", "x.yaml:3: system: reference: unknown key 'broker'; did you mean 'brokers'?"),
    ("brokers: 3", "brokers: three", "x.yaml:3: system: reference: brokers: expected an integer, got 'three'"),
    ("brokers: 3", "brokers: 0", "x.yaml:3: system: reference: brokers: expected 1 to 9, got 0"),
    ("reference:", "refrence:", "x.yaml:3: system: unknown driver 'refrence'; did you mean 'reference'?"),
    ("duration: 8s", "duration: 8", "x.yaml:4: duration: expected a duration such as 30s, 200ms or 1m30s, got 8"),
    ("duration: 8s", "duration: 8s\nlaws: [durabilty]", "laws: unknown law 'durabilty'; did you mean 'durability'?"),
    ("duration: 8s", "duration: 8s\nlaws: [in_sync]", "laws: unknown law 'in_sync'; did you mean 'in-sync'?"),
    ("duration: 8s", "duration: 8s\nreach: [replica damagd]", "did you mean 'replica damaged'?"),
    ("duration: 8s", "duration: 8s\nprofile: {flush: now}", "profile: flush: expected sync or async, got 'now'"),
    ("duration: 8s", "duration: 8s\n\tx: 1", "YAML: found character '\\t'"),
    ("name: good", "name: good\nname: again", "x.yaml:2: the key 'name' stands here for the second time"),
    ("name: good", "name: a/b", "x.yaml:1: name: expected letters, digits"),
    ("- queue:", "- queu:", "x.yaml:6: workloads: unknown workload 'queu'; did you mean 'queue'?"),
    ("rate_per_s: 20", "rate: 20", "workloads: queue: unknown key 'rate'; did you mean 'rate_per_s'?"),
    ("rate_per_s: 20", "rate_per_s: fast", "workloads: queue: rate_per_s: expected a number, got 'fast'"),
    (KILL, "- kil: {target: master}", "x.yaml:8: faults: unknown fault 'kil'; did you mean 'kill'?"),
    (KILL, "- kill", "x.yaml:8: `kill` has keys of its own below: write `kill: {}`"),
    (KILL, "- clock: {}", "clock: process can't do it (it lacks CanSkewClocks); say `on: [docker, netns, sim, ssh]`"),
    ("target: master", "target: mastr", "faults: kill: target: no node 'mastr'; did you mean 'master'?"),
    ("    at: 2s\n", "", "say when with exactly one of at, every, random, when, after; got none"),
    ("at: 2s", "at: 12s", "x.yaml:9: faults: at: 12s is not before the end of the load (8s)"),
    ("for: 1s", "for: 1s\n    evry: 2s", "x.yaml:11: faults: unknown key 'evry'; did you mean 'every'?"),
]
#: What is typed, and what is said.
TYPED = [
    (["exlpain"], "there is no command 'exlpain'; did you mean 'explain'? See `stormproof --help`"),
    (["list", "fault"], "'fault' can't be listed; did you mean 'faults'?"),
    (["run", "nosuch.yaml"], "cannot read nosuch.yaml: No such file or directory"),
    (["run", "quikstart"], "there is no file and no experiment quikstart; did you mean 'quickstart'?"),
    (["run", "x.yaml", "--on", "simulator"], "unknown deployment 'simulator'; did you mean 'sim'?"),
    (["run", "x.yaml", "--bug", "ack-before"], "unknown planted bug 'ack-before'; did you mean 'ack-before-fsync'?"),
    (["run", "x.yaml", "--seeds", "0..3"], "--seeds works with --on sim only"),
    (["run", "x.yaml", "--sed", "3"], "No such option"),
    (["check", "latst"], "there is no run latst, here or in runs"),
    (["explain", "."], ".: is not a run directory (it has no run.json)"),
    (["report"], "there is no run in runs yet"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("x.yaml").write_text(GOOD, "utf-8")
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert cli._run(words) == cli.ERROR
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and err.startswith("error: ") and said in err, err
    assert " repr" not in err and "<" not in err and os.listdir() == ["x.yaml"]


@pytest.mark.parametrize(("there", "instead", "said"), IN_FILES, ids=[one[2][-40:] for one in IN_FILES])
def test_a_mistake_in_a_file(there: str, instead: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert there in GOOD
    Path("x.yaml").write_text(GOOD.replace(there, instead), "utf-8")
    refused(capsys, ["run", "x.yaml", "--on", "process"], said)


@pytest.mark.parametrize(("words", "said"), TYPED, ids=[" ".join(one[0]) for one in TYPED])
def test_a_mistake_on_the_command_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, words, said)


def test_all_mistakes_are_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.yaml").write_text(GOOD.replace("broker", "brokr").replace("kill", "kil"), "utf-8")
    assert cli._run(["run", "x.yaml"]) == cli.ERROR
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(":")[2] for line in lines] == ["3", "8"]


def test_a_cluster_by_hand_may_come_of_a_file_with_any_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    from chaos.experiment.reader import load

    Path("x.yaml").write_text(GOOD.replace(KILL, "- clock: {}"), "utf-8")
    assert load(Path("x.yaml"), deployment="process", injects=False).faults
