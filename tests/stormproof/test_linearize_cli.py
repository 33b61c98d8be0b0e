"""``stormproof linearize``: what it prints, in which order, and the exit code that goes with it."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from checkers.linearizable import jar as _jar
from stormproof import cli

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "checkers" / "linearizable" / "vectors"
GOOD = VECTORS / "knossos" / "cas-register" / "good" / "crashed-writes.edn"
BAD = VECTORS / "knossos" / "cas-register" / "bad" / "back-again.edn"
KEYS = {"file", "id", "model", "valid", "ms", "configs", "peak_mib", "undecided", "witness", "format"}


@pytest.fixture(scope="module", autouse=True)
def jar() -> None:
    _jar.build()


@pytest.fixture
def linearize(capsys, monkeypatch):
    """Run the command here; its exit code, the lines on stdout, and stderr."""

    def run(*words: object) -> tuple[int, list[str], str]:
        monkeypatch.setattr(sys, "argv", ["stormproof", "linearize", *map(str, words)])
        code = cli._run(["linearize", *map(str, words)])
        told = capsys.readouterr()
        return code, told.out.splitlines(), told.err

    return run


def line(name: object, valid: bool, **more: object) -> str:
    rows = [("write", 1), ("read", 1 if valid else 2)]
    ops = [{"process": 0, "type": t, "f": f, "value": v} for f, v in rows for t in ("invoke", "ok")]
    return json.dumps({"id": name, "model": "register", "ops": ops, **more}) + "\n"


def test_one_object_a_file_with_the_agreed_fields(linearize):
    code, out, _ = linearize("--model", "cas-register", "--json", GOOD, BAD)
    good, bad = map(json.loads, out)
    assert code == 1 and set(good) == set(bad) == KEYS
    assert (good["file"], good["valid"], good["undecided"], good["witness"]) == (str(GOOD), True, [], None)
    assert (bad["file"], bad["valid"]) == (str(BAD), False)
    witness = bad["witness"]
    assert witness["blocked"]["call"] == "read 1" and witness["blocked"]["completed"] == 5
    assert [one["call"] for one in witness["minimal"]][-1] == "read 1"
    assert witness["prefix"] == [0, 2] and witness["dead_ends"]


def test_people_get_a_line_a_story_and_the_command_that_shows_it_again(linearize):
    code, out, _ = linearize("--model", "cas-register", "--time-limit", "5", GOOD, BAD)
    assert code == 1
    assert out[0].startswith(f"VALID  {GOOD}") and out[1].startswith(f"INVALID  {BAD}")
    assert any("read 1 by process 0" in text for text in out) and any("├─┤" in text for text in out)
    assert out[-1] == f"stormproof linearize --model cas-register --time-limit 5 {BAD}"
    again, out, _ = linearize(*shlex.split(out[-1])[2:])
    assert again == 1 and out[0].startswith("INVALID")


def test_histories_of_one_file_stream_each_with_its_id(linearize, tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text(line("a", True) + line("b c", False) + line(7, True))
    code, out, err = linearize(path, "--json")
    assert code == 1 and [(one["id"], one["valid"]) for one in map(json.loads, out)] == [
        ("a", True), ("b c", False), (7, True)
    ]  # fmt: skip
    assert err.splitlines()[-1] == f"stormproof linearize --id 'b c' {path}"
    code, out, _ = linearize(path, "--json", "--id", "7")
    assert code == 0 and [json.loads(text)["id"] for text in out] == [7]
    code, out, err = linearize(path, "--id", "nobody")
    assert code == 3 and "no history has the id 'nobody'" in err


def test_results_come_while_the_file_is_still_being_written(tmp_path):
    fifo = tmp_path / "slow.jsonl"
    os.mkfifo(fifo)
    command = [sys.executable, "-P", "-m", "stormproof", "linearize", "--json", "--format", "jsonl", str(fifo)]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    ) as popen:
        guard = threading.Timer(60, popen.kill)
        guard.start()
        assert popen.stdout is not None
        with fifo.open("w") as pen:
            pen.write(line("first", True) + line("second", False))
            pen.flush()
            # A file is read in blocks: once some are full, results come without waiting for the end of the file.
            for n in range(600):
                pen.write(line(n, True))
            pen.flush()
            first = json.loads(popen.stdout.readline())
            assert (first["id"], first["valid"]) == ("first", True)
        rest = [json.loads(text)["id"] for text in popen.stdout]
        assert rest == ["second", *range(600)] and popen.wait() == 1
        guard.cancel()


def test_first_states_formats_and_compression(linearize, tmp_path):
    path = tmp_path / "read-zero.edn.gz"
    content = b"[{:process 0, :type :invoke, :f :read, :value nil} {:process 0, :type :ok, :f :read, :value 0}]"
    path.write_bytes(gzip.compress(content))
    assert linearize(path, "--model", "register", "--init", "0")[0] == 0
    assert linearize(path, "--model", "register", "--init", "1")[0] == 1
    assert linearize(path, "--model", "register")[0] == 1
    torn = VECTORS / "knossos" / "multi-register" / "good" / "pairs.edn"
    assert linearize(torn, "--model", "multi-register", "--init", "{x 5 y 0}")[0] == 0
    assert linearize(VECTORS / "etcd" / "ok-1.log", VECTORS / "kv" / "ok-1.txt")[0] == 0
    assert linearize(VECTORS / "etcd" / "bad-nil.log", "--format", "porcupine-etcd")[0] == 1
    assert linearize(VECTORS / "etcd" / "bad-nil.log", "--format", "jepsen", "--model", "cas-register")[0] == 0


def test_both_engines_and_all_keys_and_orders(linearize, tmp_path):
    path = tmp_path / "keys.jsonl"
    ops = [
        {"process": n, "type": t, "f": "read", "value": n, "key": {"k": n}} for n in range(2) for t in ("invoke", "ok")
    ]
    path.write_text(json.dumps({"id": "x", "model": "register", "init": 1, "ops": ops}))
    for engine in ("jvm", "python"):
        code, out, _ = linearize(path, "--json", "--engine", engine, "--every-key")
        assert code == 1 and json.loads(out[0])["witness"]["key"] == {"k": 0}
    path.write_text(json.dumps({"id": "x", "model": "register", "init": 1, "ops": ops[2:]}))
    code, out, _ = linearize(path, "--json", "--orders")
    assert code == 0 and json.loads(out[0])["orders"] == [{"key": {"k": 1}, "order": [0]}]


def test_nothing_to_judge_is_unknown(linearize, tmp_path):
    path = tmp_path / "empty.edn"
    path.write_text("")
    code, out, _ = linearize(path, "--model", "mutex", "--json")
    assert code == 2 and json.loads(out[0])["valid"] == "unknown"
    assert "nothing to judge" in json.loads(out[0])["undecided"][0]["reason"]


def test_bad_input_is_told_and_the_other_files_are_judged(linearize, tmp_path):
    wrong = tmp_path / "wrong.edn"
    wrong.write_text("[{:process 0")
    code, out, err = linearize("--model", "cas-register", wrong, GOOD, "--json")
    assert code == 3 and [json.loads(text)["file"] for text in out] == [str(GOOD)]
    assert f"error: {wrong}:1: " in err and "never ends" in err
    code, out, err = linearize("--model", "cas-register", wrong, BAD, GOOD)
    assert code == 1 and out[-1].endswith(str(BAD))
    partly = tmp_path / "partly.jsonl"
    partly.write_text(line("a", True) + "{\n")
    code, out, err = linearize(partly, "--json")
    assert code == 3 and json.loads(out[0])["id"] == "a" and f"{partly}:2: expected one history a line" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "tree", GOOD], "'--model'"),
        ([GOOD], "say with --model what this is a history of"),
        (["--model", "mutex", GOOD], 'the model mutex has no "write"'),
        (["--model", "cas-register", "--time-limit", "0", GOOD], "expected seconds above 0"),
        (["--model", "cas-register", "--memory", "1", GOOD], "'--memory'"),
        (["--model", "cas-register", "--format", "xml", GOOD], "'--format'"),
        (["--model", "counter", "--init", "[1", GOOD], "expected a value as JSON"),
        ([], "Missing argument"),
        (["gone.edn"], "gone.edn: No such file"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_ends_with_3(linearize, words, message):
    code, _, err = linearize(*words)
    assert code == 3 and message in err and "Traceback" not in err


def test_without_a_jar_it_says_how_to_build_one(linearize, tmp_path, monkeypatch):
    monkeypatch.setattr(_jar, "JAR", tmp_path / "stormproof.jar")
    code, out, err = linearize("--model", "cas-register", GOOD)
    assert code == 3 and out == [] and "build it with `python -m checkers.linearizable`" in err
    assert linearize("--model", "cas-register", GOOD, "--engine", "python")[0] == 0
