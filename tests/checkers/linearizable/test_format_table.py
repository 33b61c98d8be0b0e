"""Each format × each question that a format raises. A cell is a test of this module, or says why there is none.

Asked of each: is it recognized by its content, and by nothing that another format has as well? Are its conventions told
where they differ? Is what is malformed one clear error? Does a file without an event say what was expected?
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from chaos.errors import BadInput
from checkers.linearizable import jar as _jar
from checkers.linearizable.checker import check, examine
from checkers.linearizable.formats import FORMATS
from checkers.linearizable.formats.files import read
from checkers.linearizable.formats.guessing import INSTEAD, guess
from checkers.linearizable.history import History
from stormproof import cli

DOCS = Path(__file__).parents[3] / "docs" / "linearizability.md"


@pytest.fixture(scope="module", autouse=True)
def jar() -> None:
    _jar.build()


@dataclass(frozen=True)
class Row:
    """``text``: a history that this format has, and that ``model`` allows. ``near``: texts that are almost of this
    format, and for what they are taken. ``told``: words of the conventions; ``differs``: a text that these conventions
    refuse and Knossos's allow. ``malformed``: texts and what the error says. ``eventless``: a text without an event and
    words of what was expected."""

    model: str
    text: str
    near: Mapping[str, str] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    differs: str = ""
    malformed: Mapping[str, str] = field(default_factory=dict)
    eventless: tuple[str, str] = ("", "")


def lines(prefix: str, *rows: str) -> str:
    return "".join(f"{prefix}{row}\n" for row in rows)


OLD, MIDDLE = "INFO  jepsen.util - ", "INFO [2022-03-13 03:19:15,950] jepsen worker 0 - jepsen.util "
NOW = "2025-06-23 17:56:59,640{GMT}\tINFO\t[jepsen worker 0] jepsen.util: "
WROTE = ("0\t:invoke\t:write\t1", "0\t:ok\t:write\t1")
CAS = "1\t:invoke\t:cas\t[1 2]"
FAILED = "1\t:fail\t:cas\t[1 2]"
SAW_NIL = ("1\t:invoke\t:read\tnil", "1\t:ok\t:read\tnil")
KV = """{:process 0, :type :invoke, :f :put, :key "k", :value "a"}
{:process 0, :type :ok, :f :put, :key "k", :value "a"}
{:process 0, :type :invoke, :f :get, :key "k", :value nil}
{:process 0, :type :ok, :f :get, :key "k", :value "a"}
"""
NO_SUCH_KEY = """{:process 0, :type :invoke, :f :get, :key "k", :value nil}
{:process 0, :type :ok, :f :get, :key "k", :value ""}
"""
EDN = "{:process 0, :type :invoke, :f :write, :value 1}\n{:process 0, :type :ok, :f :write, :value 1}\n"
EVENTS = ({"process": 0, "type": "invoke", "f": "write", "value": 1}, {"process": 0, "type": "ok", "f": "write"})
ARRAY = json.dumps(EVENTS)


def porcupine(f: object, call: int, ret: int | None, given: object = None, **output: object) -> dict[str, object]:
    asked = {"op": f, "value": given} if f != 2 else {"op": 2, "arg1": 1, "arg2": 2}
    return {"ClientId": 0, "Input": asked, "Call": call, "Output": output, "Return": ret}


ROWS = {
    "knossos": Row(
        model="register",
        text=EDN,
        near={f"({EDN})": "knossos", f"; a comment\n{EDN}": "knossos"},
        malformed={
            EDN[:-3]: "file:2: .*never ends: the text is cut off",
            "[1 2]": "expected maps such as",
            EDN.replace(":ok", ":done"): "file:2: expected :type with one of",
        },
        eventless=("[]", "expected maps such as {:process 0"),
    ),
    "jepsen": Row(
        model="cas-register",
        text=lines(NOW, *WROTE, CAS, f"{FAILED}\t:conn-closed"),
        near={
            lines(OLD, *WROTE, CAS, FAILED, "0\t:invoke\t:add\t1"): "jepsen",  # no call of Porcupine's log
            lines(OLD, *WROTE, CAS, f"{FAILED}\t:connection-refused"): "jepsen",  # nor a reason
            lines(OLD, "0\t:invoke\t:write\t[0 1]"): "jepsen",  # nor a key
            lines(MIDDLE, *WROTE, CAS, FAILED): "jepsen",  # nor another logger
            lines("", *WROTE): "jepsen",
            lines("x jepsen.core - ", *WROTE): "",  # no logger of calls
        },
        malformed={
            lines(NOW, "0\t:invoke"): "file:1: expected process, type, function and value",
            lines(NOW, "0\t:invoke\t:write\t[1"): "file:1: expected a value, got",
            lines(MIDDLE, "0\t:ok\t:write\t1"): "file:1: process 0 ends write .ok., which it has not invoked",
        },
        eventless=("INFO jepsen.core - Worker 0 starting\n", "expected lines such as `jepsen.util: 0 :invoke"),
    ),
    "porcupine-etcd": Row(
        model="cas-register",
        text=lines(OLD, *WROTE, "1\t:invoke\t:cas\t[2 3]", "1\t:fail\t:cas\t[2 3]"),
        near={
            lines(OLD, ":nemesis\t:info\t:start\tnil", *WROTE): "porcupine-etcd",
            lines(OLD, *WROTE, "0\t:invoke\t:read\tnil", "0\t:fail\t:read\t:timed-out"): "porcupine-etcd",
            lines(OLD, *WROTE, "0\t:invoke\t:read\tnil", "0\t:fail\t:read\t:no-leader"): "jepsen",
        },
        told=("failed compare-and-set", "read of nil has seen nil"),
        differs=lines(OLD, *WROTE, CAS, FAILED),
        malformed={
            lines(OLD, "0\t:invoke\t"): "file:1: expected process, type, function and value",
            lines(OLD, "0\t:invoke\t:write\t[1"): "file:1: expected a value, got",
        },
        eventless=("nothing here\n", "expected lines such as `INFO  jepsen.util - 0"),
    ),
    "porcupine-kv": Row(
        model="kv",
        text=KV,
        near={
            KV.replace('"k"', "7"): "knossos",  # its keys are strings
            KV.replace('"}\n{', '", :time 7}\n{', 1): "knossos",  # and it knows no times
            KV.replace(":ok", ":info", 1): "knossos",
            KV[:-5] + "nil}\n": "knossos",
        },
        told=("absent reads as the empty string",),
        differs=NO_SUCH_KEY,
        malformed={KV[:-3]: "file:4: a string that never ends|file:4: .*cut off"},
        eventless=("; no events\n", 'expected maps such as {:process 0, :type :invoke, :f :get, :key "0"'),
    ),
    "porcupine-json": Row(
        model="cas-register",
        text=json.dumps([porcupine(1, 0, 5, 1), porcupine(2, 6, 7, ok=True), porcupine(0, 8, 9, exists=True, value=2)]),
        near={
            "\n".join(json.dumps(porcupine(1, n, n + 1, n)) for n in range(0, 6, 2)): "porcupine-json",
            json.dumps([{**EVENTS[0], "call": 1, "return": 2}]): "json",
        },
        told=("failed compare-and-set", "seen nil", "equal times"),
        differs=json.dumps([porcupine(1, 0, 1, 1), porcupine(2, 2, 3, ok=False)]),
        malformed={
            json.dumps([porcupine(1, 0, 5, 1)])[:-3]: "file:1: expected operations as JSON.*cut off",
            json.dumps([porcupine(1, 5, 4, 1)]): 'operation 0: expected a "Return" that is not before its "Call"',
            json.dumps(
                [porcupine(9, 0, 1)]
            ): 'operation 0: expected "op" in "Input" with one of .*0 read, 1 write, 2 cas',
            json.dumps([porcupine(0, 0, 1)]): 'operation 0: expected "value" in the "Output" of a read',
            json.dumps([porcupine(2, 0, 1)]): 'operation 0: expected "ok" .true or false.',
            json.dumps([{"Call": "now", "Input": {}}]): "operation 0: expected an operation with .*times as",
            "[{]": "file:1: expected operations as JSON",
        },
        eventless=("[]", 'expected operations such as {"ClientId"'),
    ),
    "json": Row(
        model="register",
        text=ARRAY,
        near={
            "\n".join(map(json.dumps, EVENTS)): "json",
            json.dumps(EVENTS, indent=2): "json",
            ARRAY[:40]: "json",
            '["a"]': "knossos",
            '{"type": "x", "ops": []}': "jsonl",
        },
        malformed={
            ARRAY[:-3]: "file:1: expected operations as JSON.*cut off",
            ARRAY.replace('"ok"', '"done"'): 'operation 1: expected "type" to be one of',
            json.dumps([EVENTS[1]]): "operation 0: process 0 ends write .ok., which it has not invoked",
            json.dumps(
                [*EVENTS, {"process": None, "type": "ok", "f": "read"}]
            ): "operation 2: expected a number or a name",
            json.dumps([{**EVENTS[0], "index": 1}, {**EVENTS[1], "index": 0}]): "operation 1: .*in the order of time",
            json.dumps([*EVENTS, 7]): "operation 2: expected an object with",
            json.dumps(
                [{**EVENTS[0], "key": 1}, {**EVENTS[0], "process": 1}]
            ): "operation 1: only some calls have a key",
        },
        eventless=("[]", 'expected operations such as {"process": 0'),
    ),
    "jsonl": Row(
        model="register",
        text=json.dumps({"id": 1, "ops": EVENTS}) + "\n" + json.dumps({"id": 2, "ops": EVENTS}),
        near={"{}": "jsonl", '{"ops": [{"process": 0}]}': "jsonl"},
        malformed={
            '{"ops": [': "file:1: expected one history a line",
            json.dumps(EVENTS[0]): 'file:1: expected an object with "id", "model" and "ops".*--format json',
            '{"ops": [7]}': "file:1, op 0: expected an object with",
        },
        eventless=("\n", "expected histories such as"),
    ),
}
#: Cells without a test, and why.
NOT_APPLICABLE = {
    ("conventions", "knossos"): "its conventions are the common ones",
    ("conventions", "jepsen"): "its conventions are Knossos's",
    ("conventions", "json"): "elle-cli takes Knossos's conventions",
    ("conventions", "jsonl"): "its conventions are Knossos's; the model stands in the file",
}
QUESTIONS = {
    "guessed": "test_it_is_recognized_by_what_only_it_has",
    "conventions": "test_conventions_that_differ_are_told",
    "malformed": "test_what_is_malformed_is_one_clear_error",
    "empty": "test_without_an_event_it_is_unknown_and_says_what_was_expected",
}


def cells(question: str) -> list[str]:
    return [format for format in FORMATS if (question, format) not in NOT_APPLICABLE]


def histories(path: Path, text: str, format: str = "", model: str = "") -> list[History]:
    file = path / "file"
    file.write_text(text)
    return list(read(file, format, model))


def verdict(one: History) -> bool | None:
    (jvm,), (python,) = examine([one], engine="jvm", memory_mib=256), examine([one], engine="python")
    assert jvm.valid is python.valid
    return jvm.valid


def test_the_table_is_whole() -> None:
    assert set(ROWS) == set(FORMATS)
    assert all(name in globals() for name in QUESTIONS.values())
    assert {question for question, _ in NOT_APPLICABLE} <= set(QUESTIONS)


@pytest.mark.parametrize("format", cells("guessed"))
def test_it_is_recognized_by_what_only_it_has(tmp_path: Path, format: str) -> None:
    row = ROWS[format]
    found = histories(tmp_path, row.text, model=row.model)
    readings = [one.reading for one in found]
    assert found and all(reading is not None and reading.guessed for reading in readings)
    assert {reading.format for reading in readings if reading is not None} == {format}
    assert {verdict(one) for one in found} == {True}
    for text, taken_for in row.near.items():
        assert guess(text.encode()) == taken_for, text
    asked = histories(tmp_path, row.text, format, row.model)
    assert [one.operations for one in asked] == [one.operations for one in found]
    assert not any(one.reading is None or one.reading.guessed for one in asked)


@pytest.mark.parametrize("format", cells("conventions"))
def test_conventions_that_differ_are_told(tmp_path: Path, format: str, capsys) -> None:
    row = ROWS[format]
    (one,) = histories(tmp_path, row.text, model=row.model)
    assert one.reading is not None
    told = "; ".join(one.reading.conventions)
    assert all(words in told for words in row.told), told
    assert cli._run(["linearize", "--model", row.model, str(tmp_path / "file")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"read as {format} (recognized by its content" in out and row.told[0] in out
    assert cli._run(["linearize", "--json", "--model", row.model, str(tmp_path / "file")]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[0])["format"]
    assert found == {"name": format, "guessed": True, "conventions": list(one.reading.conventions)}


@pytest.mark.parametrize("format", cells("conventions"))
def test_the_conventions_are_those_that_are_told(tmp_path: Path, format: str) -> None:
    row = ROWS[format]
    (one,) = histories(tmp_path, row.differs, format, row.model)
    other = INSTEAD.get(format)
    if other is None:
        assert verdict(one) is False  # a compare-and-set that failed although the value was the expected one
        return
    (by_knossos,) = histories(tmp_path, row.differs, other, row.model)
    if verdict(one) is False:
        explained = check(tmp_path / "file").anomalies[0].explanation
        assert f"(read as {format}: " in explained and row.told[0] in explained
    assert {verdict(one), verdict(by_knossos)} == {True, False}


@pytest.mark.parametrize("format", cells("malformed"))
def test_what_is_malformed_is_one_clear_error(tmp_path: Path, format: str, capsys) -> None:
    row = ROWS[format]
    for text, message in row.malformed.items():
        with pytest.raises(BadInput, match=message):
            histories(tmp_path, text, format, row.model)
        assert cli._run(["linearize", "--format", format, "--model", row.model, str(tmp_path / "file")]) == 3
        told = capsys.readouterr()
        assert told.err.count("error:") == 1 and "Traceback" not in told.err
        assert not told.out.startswith(("VALID", "INVALID", "UNKNOWN"))


@pytest.mark.parametrize("format", cells("empty"))
def test_without_an_event_it_is_unknown_and_says_what_was_expected(tmp_path: Path, format: str, capsys) -> None:
    row = ROWS[format]
    (tmp_path / "file").write_text(row.eventless[0])
    assert cli._run(["linearize", "--format", format, "--model", row.model, str(tmp_path / "file")]) == 2
    out = " ".join(capsys.readouterr().out.split())
    assert "there is not one event in it: nothing to judge; expected" in out
    assert " ".join(row.eventless[1].split()) in out
    (tmp_path / "file").write_text("")
    assert cli._run(["linearize", "--format", format, "--model", row.model, str(tmp_path / "file")]) == 2


def test_keys_in_values_are_told(tmp_path: Path, capsys) -> None:
    rows = ("0\t:invoke\t:write\t[7 1]", "0\t:ok\t:write\t[7 1]", "0\t:invoke\t:read\t[7 nil]", "0\t:ok\t:read\t[7 1]")
    (tmp_path / "file").write_text(lines(NOW, *rows))
    assert cli._run(["linearize", "--json", "--model", "register", str(tmp_path / "file")]) == 0
    told = json.loads(capsys.readouterr().out)["format"]["conventions"]
    assert told == ["each value is [key, value], and each key an object of its own"]
    for wrong in (lines(NOW, *rows, "0\t:invoke\t:write\t5"), lines(NOW, *rows[:3], "0\t:ok\t:read\t1")):
        with pytest.raises(BadInput, match="only some values have keys"):
            histories(tmp_path, wrong, model="register")


def test_a_log_is_judged_by_all_of_it(tmp_path: Path) -> None:
    """Not by what stands in its first kilobytes: one call that is none of Porcupine's log makes it Jepsen's."""
    many = [row for n in range(4_000) for row in (f"0\t:invoke\t:write\t{n}", f"0\t:ok\t:write\t{n}")]
    last = ("1\t:invoke\t:cas\t[3999 1]", "1\t:fail\t:cas\t[3999 1]\t:connection-refused")
    noise = "INFO  jepsen.os.debian - installing\n" * 3_000
    for begin in ("", noise):
        (one,) = histories(tmp_path, begin + lines(OLD, *many, *last), model="cas-register")
        assert one.reading is not None and one.reading.format == "jepsen" and len(one.operations) == 4_000


def test_a_client_of_porcupines_whose_calls_overlap_is_several_processes(tmp_path: Path) -> None:
    overlapping = [porcupine(1, 0, 9, 1), porcupine(1, 2, 4, 2), porcupine(0, 5, 6, exists=True, value=2)]
    touching = [porcupine(1, 0, 5, 1), porcupine(0, 5, 6, exists=False)]
    after = [porcupine(1, 0, 4, 1), porcupine(0, 5, 6, exists=False)]
    open_ended = [porcupine(1, 0, None, 1), porcupine(0, 5, 6, exists=True, value=1)]
    unknown = [porcupine(1, 0, 4, 1, unknown=True), porcupine(0, 5, 6, exists=False)]
    for operations, valid in (
        (overlapping, True),
        (touching, True),
        (after, False),
        (open_ended, True),
        (unknown, True),
    ):
        (one,) = histories(tmp_path, json.dumps(operations), model="cas-register")
        assert verdict(one) is valid, operations
    (one,) = histories(tmp_path, json.dumps(overlapping), model="cas-register")
    assert {operation.process for operation in one.operations} == {"0", "0/1"}


def test_the_nemesis_alone_proves_nothing(tmp_path: Path) -> None:
    texts = {
        "knossos": "{:process :nemesis, :type :info, :f :start}",
        "jepsen": lines(NOW, ":nemesis\t:info\t:start\tnil"),
        "json": json.dumps([{"process": "nemesis", "type": "info", "f": "start"}]),
    }
    for format, text in texts.items():
        (one,) = histories(tmp_path, text, format, "register")
        assert verdict(one) is None


def test_a_named_process_is_a_client(tmp_path: Path) -> None:
    (one,) = histories(tmp_path, EDN.replace(":process 0", ":process :client-a"), model="register")
    assert [operation.process for operation in one.operations] == ["client-a"]


def test_the_docs_have_the_same_table() -> None:
    page = DOCS.read_text()
    assert all(f"| `{format}` |" in page for format in FORMATS)
