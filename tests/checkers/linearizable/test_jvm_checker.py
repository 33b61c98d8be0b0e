"""The Java checker as a whole: its own test, and its program as a user would run it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from checkers.linearizable.history import Function, History, Operation
from checkers.linearizable.packing import pack


def java(classes: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", str(classes)]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def register(id: str, *operations: tuple[Function, str]) -> History:
    """A register whose operations follow one another."""
    return History(
        id=id,
        model="register",
        operations=[
            Operation(process="p", f=f, arguments=(value,), call=2 * i, ret=2 * i + 1)
            for i, (f, value) in enumerate(operations)
        ],
    )


GOOD = register("good", (Function.WRITE, "1"), (Function.READ, "1"))
STALE = register("stale", (Function.WRITE, "1"), (Function.WRITE, '"ü"'), (Function.READ, "1"))


def test_partitions_budgets_witnesses_and_json(classes: Path) -> None:
    done = java(classes, "stormproof.CheckerTest")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_program_answers_a_line_for_each_history(classes: Path, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(pack([GOOD, STALE]))
    two.write_bytes(pack([GOOD]))
    done = java(classes, "stormproof.Main", "--orders", "--every-key", "--threads", 1, one, two)
    assert (done.returncode, done.stderr) == (0, "")
    good, stale, again = [json.loads(line) for line in done.stdout.splitlines()]
    assert (good["id"], good["valid"], good["orders"]) == ("good", True, [{"key": None, "order": [0, 1]}])
    assert (stale["id"], stale["valid"], stale["orders"], stale["violated"]) == ("stale", False, [], [None])
    assert (stale["witness"]["blocked"], stale["witness"]["minimal"]) == (2, [0, 1, 2])
    assert stale["witness"]["dead_ends"] == [{"order": [0, 1], "state": '"ü"', "illegal": [2]}]
    assert again["valid"] is True


def test_a_file_that_is_no_batch_is_named_and_the_others_are_judged(classes: Path, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    bad.write_bytes(b"no batch at all")
    good.write_bytes(pack([GOOD]))
    done = java(classes, "stormproof.Main", bad, tmp_path / "missing", good)
    assert done.returncode == 3
    errors = done.stderr.splitlines()
    assert len(errors) == 2 and errors[0].startswith(f"{bad}: ") and errors[1].startswith(f"{tmp_path / 'missing'}: ")
    assert json.loads(done.stdout)["id"] == "good"


@pytest.mark.parametrize("arguments", [(), ("--nonsense",), ("--time-limit", "-1", "x"), ("--memory",)])
def test_wrong_options_are_explained(classes: Path, arguments: tuple[str, ...]) -> None:
    done = java(classes, "stormproof.Main", *arguments)
    assert done.returncode == 3 and "usage:" in done.stderr and done.stdout == ""
