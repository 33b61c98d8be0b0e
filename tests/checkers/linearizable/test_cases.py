"""Recorded files from public reports that were once read wrongly or not at all: each with the verdict that is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.linearizable import jar as _jar
from stormproof import cli

CASES = Path(__file__).parent / "vectors" / "cases"
VALID, INVALID, UNREADABLE = 0, 1, 3

#: File, model, the exit code, and the format that it is taken for.
VERDICTS = [
    ("jepsen-2014.log", "register", INVALID, "porcupine-etcd"),
    ("jepsen-2018.log", "register", INVALID, "jepsen"),
    ("jepsen-2025.log", "register", INVALID, "jepsen"),
    ("casfail.log", "cas-register", VALID, "jepsen"),
    ("casfail.history.txt", "cas-register", VALID, "jepsen"),
    ("array.json", "register", VALID, "json"),
    ("events.jsonl", "register", VALID, "json"),
    ("porcupine.json", "kv", VALID, "porcupine-json"),
    ("rabbit-drain.edn", "unordered-queue", VALID, "knossos"),
    ("rabbit-drain.edn", "total-queue", VALID, "knossos"),
]


@pytest.fixture(scope="module", autouse=True)
def jar() -> None:
    _jar.build()


@pytest.fixture
def linearize(capsys):
    """Run the command: its exit code, what it printed, and its errors."""

    def run(*words: object) -> tuple[int, str, str]:
        code = cli._run(["linearize", *map(str, words)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.mark.parametrize("engine", ["jvm", "python"])
@pytest.mark.parametrize(("name", "model", "code", "format"), VERDICTS)
def test_each_case_gets_its_verdict(linearize, name, model, code, format, engine) -> None:
    found, out, err = linearize(CASES / name, "--model", model, "--json", "--engine", engine)
    assert found == code, err
    told = json.loads(out.splitlines()[0])
    assert told["format"]["name"] == format and told["format"]["guessed"] is True


def test_every_case_is_judged() -> None:
    assert {path.name for path in CASES.iterdir()} == {name for name, *_ in VERDICTS} | {"set-full.edn"}


def test_the_same_events_break_the_register_at_the_same_call_whoever_logged_them(linearize) -> None:
    logs = sorted(CASES.glob("jepsen-*.log"))
    _, out, _ = linearize(*logs, "--model", "register", "--json")
    witnesses = [json.loads(line)["witness"]["blocked"] for line in out.splitlines() if line[0] == "{"]
    assert len(logs) == 3 and witnesses == [witnesses[0]] * 3 and witnesses[0]["call"] == "read 2"


def test_a_set_of_which_only_the_calls_have_keys_is_one_sentence(linearize) -> None:
    code, out, err = linearize(CASES / "set-full.edn", "--model", "set")
    assert code == UNREADABLE and "INVALID" not in out
    (line,) = [line for line in err.splitlines() if line.startswith("error:")]
    assert "set-full.edn:8: only some values have keys" in line and "expected [key, value]" in line
