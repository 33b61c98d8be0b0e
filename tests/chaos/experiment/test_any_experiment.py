"""Whatever stands in a file is an experiment, or one clear error; and an experiment survives being written again."""

from __future__ import annotations

import json
import math
import os
import re
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from chaos.errors import BadInput
from chaos.experiment.model import Experiment
from chaos.experiment.reader import load
from chaos.plugins import PluginKind, names
from stormproof import cli
from tests.chaos.experiment.test_reader import EXAMPLES, GOOD, MANY
from tests.damage import altered, json_values

#: Words of the grammar, so that what is drawn comes further than to its first unknown key.
WORDS = sorted(
    {
        *("name", "system", "profile", "duration", "quiet", "bounds", "workloads", "faults", "simulation", "laws"),
        *("reference", "controllers", "brokers", "queues", "flush", "async", "acks", "master", "target", "at", "for"),
        *(
            "every",
            "random",
            "mean",
            "when",
            "event",
            "node",
            "on",
            "sim",
            "sequence",
            "each",
            "swarm",
            "rest",
            "reach",
        ),
        *("45s", "5s", "0s", "-1s", "1e9s", "role", "skip", "times", "available_s", "rate_per_s", "shape", "halves"),
        *(name for kind in (PluginKind.FAULT, PluginKind.WORKLOAD) for name in list(names(kind))[:8]),
    }
)
VALUES = json_values(st.sampled_from(WORDS) | st.text(max_size=4))
PLAIN = YAML(typ="safe", pure=True)
GOODS = [PLAIN.load(text) for text in (GOOD, MANY.replace("ring", "halves").replace("      - clock\n", ""))]
GOODS += [PLAIN.load(path.read_text("utf-8")) for path in sorted(EXAMPLES, key=lambda path: path.stat().st_size)[:12]]
#: YAML is read slowly.
FEWER = settings(max_examples=settings.default.max_examples * 2 // 5)


def read(content: bytes) -> Experiment | None:
    """None: there was one clear error."""
    with TemporaryDirectory() as directory:
        path = Path(directory) / "storm.yaml"
        path.write_bytes(content)
        try:
            return load(path, deployment="sim")
        except BadInput as error:
            assert error.problems and all("storm.yaml" in problem for problem in error.problems)
            assert all(len(problem) < 3000 and "Traceback" not in problem for problem in error.problems)
            return None


def written(value: object) -> bytes:
    return json.dumps(value).encode()  # which is YAML, too


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """The same value, but that something in it is another one, gone, or there twice."""
    if not isinstance(value, dict | list) or not value or draw(st.integers(0, 5)) == 0:
        return draw(VALUES)
    key = draw(st.sampled_from(list(value) if isinstance(value, dict) else range(len(value))))
    made = value.copy()
    if draw(st.integers(0, 5)) == 0:
        del made[key]
    elif isinstance(value, dict) and draw(st.integers(0, 5)) == 0:
        made[draw(st.sampled_from(WORDS))] = made.pop(key)
    else:
        made[key] = draw(changed(value[key]))
    return made


@FEWER
@given(VALUES)
def test_any_value_is_an_experiment_or_one_clear_error(value: object) -> None:
    read(written(value))


@FEWER
@given(st.sampled_from(GOODS).flatmap(changed))
def test_an_experiment_with_a_mistake_anywhere_is_another_one_or_one_clear_error(value: object) -> None:
    made = read(written(value))
    assert made is None or 0 < made.duration_s < math.inf


@given(st.sampled_from((GOOD, MANY)).flatmap(lambda text: altered(text.encode())))
def test_any_damaged_file_is_an_experiment_or_one_clear_error(content: bytes) -> None:
    read(content)


def _reordered(value: Any, draw: st.DrawFn) -> Any:
    if isinstance(value, dict):
        return {key: _reordered(value[key], draw) for key in draw(st.permutations(list(value)))}
    return [_reordered(one, draw) for one in value] if isinstance(value, list) else value


@FEWER
@given(st.data())
def test_an_experiment_survives_being_written_again_in_any_order_of_its_keys(data: st.DataObject) -> None:
    value: Any = data.draw(st.sampled_from(GOODS))
    once, again = read(written(value)), read(written(_reordered(value, data.draw)))
    assert once is not None and again is not None
    assert replace(again, source="") == replace(once, source="")


#: What may stand in the place of a word: all that YAML has besides plain ones, and numbers without end.
STRANGE = (
    *(
        "%YAML 9.9",
        "%YAML 1.9",
        "%TAG ! tag:x,1:",
        "---",
        "...",
        "&a [*a]",
        "&a",
        "*a",
        "<<",
        "<<: *a",
        "? [a]",
        "- - -",
    ),
    *('!!int ""', "!!float x", "!!binary x", "!!timestamp x", "!!set {a}", "!!omap [a: 1]", "!!python/name:os.system"),
    *(
        "!x y",
        "{{",
        "|",
        ">-",
        "[1]",
        "{a: 1}",
        "{one_of: [[1]]}",
        "2026-02-31",
        "1:30:00",
        "0x" + "f" * 5000,
        "9" * 5000,
    ),
    *("1e999", "-.inf", ".nan", "-0", "'", '"\\ud800"', '"\\0"', "\0", "\x1b[2J", "\u202e", "\u2028", "\t", "-rf"),
    *("../../x", "~", "null", "yes", "a" * 3000, "[" * 300),
)
#: No file takes more of the processor, in seconds.
PATIENCE_S = 10.0


@st.composite
def texts(draw: st.DrawFn) -> str:
    """An experiment of people, some of whose words are strange."""
    text = draw(st.sampled_from((GOOD, MANY)))
    for _ in range(draw(st.integers(1, 3))):
        places = [found.span() for found in re.finditer(r"[^\s,:{}\[\]]+", text)]
        begin, end = draw(st.sampled_from(places)) if places else (0, 0)
        text = text[:begin] + draw(st.sampled_from(STRANGE)) + text[draw(st.sampled_from([begin, end])) :]
    return text


def told(capfd: pytest.CaptureFixture[str], folder: Path, content: bytes) -> None:
    """Have a command read it, under a name of no good."""
    path = folder / "-rf \x1b[2J.yaml"
    path.write_bytes(content)
    began = time.process_time()
    code = cli._run(["compose", str(path)])
    out, err = capfd.readouterr()
    assert time.process_time() - began < PATIENCE_S
    assert code in (0, 3) and "Traceback" not in err and "bug of" not in err, err
    assert (out + err).replace("\n", "").isprintable() and all(line.startswith("error: ") for line in err.splitlines())
    assert bool(out) == (code == 0) and bool(err) == (code == 3), (out, err)
    assert os.listdir(folder) == [path.name]


@pytest.mark.parametrize("amount", [20, pytest.param(2_000, marks=pytest.mark.full)], ids=["few", "many"])
def test_any_file_is_refused_by_a_command_in_sentences_and_in_time(
    amount: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    contents = texts().map(lambda text: text.encode("utf-8", "surrogatepass"))
    contents |= st.sampled_from(GOODS).flatmap(changed).map(written)

    @settings(max_examples=amount)
    @given(contents)
    def check(content: bytes) -> None:
        told(capfd, tmp_path, content)

    check()


def test_very_many_mistakes_take_no_minutes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for many in (3_000, 90_000):
        told(capfd, tmp_path, (GOOD + "".join(f"key{number}: 1\n" for number in range(many))).encode())


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("-rf.yaml", "rf"),
        ("a b.yaml", "a-b"),
        ("..yaml", "experiment"),
        ("\x1b[2J.yaml", "2J"),
        ("日本.yaml", "日本"),
        ("-.yaml", "experiment"),
    ],
)
def test_a_run_is_named_after_its_file_as_far_as_that_is_a_name(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).write_text(GOOD.replace("name: small\n", ""))
    assert load(tmp_path / file, deployment="sim").name == name
