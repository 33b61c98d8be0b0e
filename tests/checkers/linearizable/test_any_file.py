"""Whatever stands in a file of histories is judged as what it is, or refused in a sentence, by each engine alike."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.errors import BadInput
from checkers.linearizable import checker, jar
from checkers.linearizable.formats import FORMATS
from checkers.linearizable.formats.files import read
from checkers.linearizable.formats.operation_mapping import FUNCTIONS
from checkers.linearizable.history import History, Result
from checkers.linearizable.models import JUDGED_AS, MODELS
from stormproof import cli
from tests.checkers.linearizable.brute_force import linearizable
from tests.damage import altered, json_values

VECTORS = Path(__file__).parent / "vectors"
#: Small recorded files of each format, with what they are histories of.
SMALL = [
    (path.read_bytes(), next((part for part in path.parts if part in JUDGED_AS), "register"))
    for path in sorted(VECTORS.rglob("*"))
    if path.is_file() and path.stat().st_size < 3000
]
#: No file of so few bytes takes more of the processor.
PATIENCE_S = 10.0
#: A history of so many operations is small enough for the definition itself.
FEW = 7
STRANGE = (
    "nil", ":exhausted", "#{1 2}", "[1 2]", "{:a 1}", "1e400", "0x" + "f" * 5000, "9" * 5000, "2N", "1/2", "##Inf",
    '"\\ud800"', "\\newline", '#inst "x"', "#_ 1", "-0", "true", "\u202e", "\x1b[2J", str(2**64), str(-(2**63)),
)  # fmt: skip
WORDS = st.sampled_from(("invoke", "ok", "fail", "info", "read", "write", "cas", "nemesis", "", "\ud800", "\x1b[2J"))


@st.composite
def events(draw: st.DrawFn, model: str) -> list[dict[str, Any]]:
    """What few clients may have recorded of this model; mostly in pairs, with values that are sometimes odd."""
    functions = list(FUNCTIONS[model])
    value = st.integers(0, 2) | st.sampled_from([None, [0, 1], [1, [0, 1]], "a", 2**63, -(2**63), 2**62, True, 1.5])
    value |= json_values(WORDS)
    made: list[dict[str, Any]] = []
    waiting: dict[int, dict[str, Any]] = {}
    for _ in range(draw(st.integers(0, 10))):
        process = draw(st.integers(0, 2))
        if process in waiting and draw(st.integers(0, 9)):
            asked = waiting.pop(process)
            result = draw(st.just(asked["value"]) | st.integers(0, 2) | value)
            made.append({**asked, "type": draw(st.sampled_from(["ok", "ok", "ok", "fail", "info"])), "value": result})
        else:
            asked = {"process": process, "type": "invoke", "f": draw(st.sampled_from(functions)), "value": draw(value)}
            asked |= {"key": draw(st.integers(0, 1))} if draw(st.integers(0, 9)) == 0 else {}
            waiting[process] = asked
            made.append(asked)
    if made and draw(st.integers(0, 5)) == 0:
        field = draw(st.sampled_from(["process", "type", "f", "key", "x"]))
        made[draw(st.integers(0, len(made) - 1))][field] = draw(value)
    return made


@st.composite
def contents(draw: st.DrawFn) -> tuple[bytes, str]:
    """The bytes of a file, and the model that a user may give for it."""
    model = draw(st.sampled_from(JUDGED_AS))
    match draw(st.integers(0, 5)):
        case 0:  # a recorded file that was damaged
            whole, model = draw(st.sampled_from(SMALL))
            data = draw(altered(whole))
        case 1:  # strange values in a recorded one
            whole, model = draw(st.sampled_from(SMALL))
            words = whole.decode("utf-8", "replace").split(" ")
            words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(STRANGE))
            data = " ".join(words).encode("utf-8", "surrogatepass")
        case 2:
            magic = draw(st.sampled_from([b"", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"[[[", b"{"]))
            data = magic + draw(st.binary(max_size=60))
        case 3:  # operations
            data = json.dumps(draw(events(model))).encode()
        case _:  # histories, one a line
            lines = [
                {"id": draw(st.integers() | WORDS), "model": model, "ops": draw(events(model)),
                 **({"init": draw(json_values(WORDS))} if draw(st.integers(0, 5)) == 0 else {})}
                for _ in range(draw(st.integers(1, 3)))
            ]  # fmt: skip
            data = b"\n".join(json.dumps(line).encode() for line in lines)
            data = draw(altered(data)) if draw(st.integers(0, 3)) == 0 else data
    return (gzip.compress(data) if draw(st.integers(0, 9)) == 0 else data), model


def histories(path: Path, model: str) -> Iterator[History]:
    """Those that can be read; what can't is told in one sentence each."""

    def tell(error: BadInput) -> None:
        assert str(path) in str(error) and len(str(error)) < 3000

    try:
        yield from read(path, "", model, None, tell)
    except BadInput as error:
        tell(error)


def judged(path: Path, model: str) -> list[tuple[History, Result]]:
    found = list(histories(path, model))
    results = list(checker.examine(found, engine="python", time_limit_s=5))
    for history, result in zip(found, results, strict=True):
        by_definition = history.model in MODELS and 0 < len(history.operations) <= FEW
        if result.valid is not None and by_definition and history.model != "multi-register":
            assert result.valid == linearizable(history), history
        if not history.operations and not history.left_out:
            assert result.valid is None
    return list(zip(found, results, strict=True))


def told(capfd: pytest.CaptureFixture[str], folder: Path, data: bytes, model: str) -> list[bool | None]:
    """Have a file judged by the command; returns the verdicts."""
    path = folder / "-history\x1b[2J"
    path.write_bytes(data)
    before = sorted(os.listdir(folder))
    began = time.process_time()
    code = cli._run(["linearize", "--engine", "python", "--time-limit", "2", "--model", model, "--json", str(path)])
    out, err = capfd.readouterr()
    assert time.process_time() - began < PATIENCE_S, data
    assert code in (0, 1, 2, 3) and "Traceback" not in err and "bug of" not in err, (data, err)
    assert (out + err).replace("\n", "").isprintable(), (data, out, err)
    assert max(map(len, err.splitlines()), default=0) < 3000, (data, err)
    assert sorted(os.listdir(folder)) == before
    verdicts = [json.loads(line)["valid"] for line in out.splitlines() if line.startswith("{")]
    found = [None if verdict == "unknown" else verdict for verdict in verdicts]
    assert code != 1 or False in found, data
    assert code != 0 or (found and all(found)), data
    return found


def one(capfd: pytest.CaptureFixture[str], folder: Path, data: bytes, model: str) -> None:
    told(capfd, folder, data, model)
    judged(folder / "-history\x1b[2J", model)


@pytest.mark.parametrize("amount", [60, pytest.param(800, marks=pytest.mark.full)], ids=["few", "many"])
def test_any_file_is_judged_or_refused_in_a_sentence(
    amount: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    @settings(max_examples=amount)
    @given(contents())
    def check(drawn: tuple[bytes, str]) -> None:
        one(capfd, tmp_path, *drawn)

    check()


EDGES: dict[str, tuple[Callable[[], bytes], str, list[bool | None]]] = {}


def edge(model: str, *expected: bool | None) -> Callable[[Callable[[], bytes]], None]:
    def add(make: Callable[[], bytes]) -> None:
        EDGES[make.__name__] = (make, model, list(expected))

    return add


def line(model: str, *calls: tuple[str, Any, Any]) -> bytes:
    ops = []
    for f, given_, result in calls:
        ops += [{"process": 0, "type": t, "f": f, "value": v} for t, v in (("invoke", given_), ("ok", result))]
    return json.dumps({"model": model, "ops": ops}).encode() + b"\n"


GOOD = line("register", ("write", 1, 1), ("read", None, 1))
BAD = line("register", ("write", 1, 1), ("read", None, 2))
LARGE = 2**63


@edge("register", True, None, None, None, True, False)
def numbers_beyond_64_bits() -> bytes:
    """Java's would come round: there 2^63 - 1 and 1 are -2^63."""
    wraps = line("counter", ("add", LARGE - 1, LARGE - 1), ("add", 1, 1), ("read", None, -LARGE))
    token = line("fenced-lock", ("acquire", None, LARGE))
    text = line("register", ("write", 10**40, 10**40), ("read", None, 10**40))
    return GOOD + line("counter", ("add", LARGE, LARGE)) + wraps + token + text + BAD


@edge("register", True, False)
def lines_that_hold_no_history() -> bytes:
    whole = b'{"model": "register", "ops": [{"process": 0, "type": "invoke", "f": "write", "value": VALUE}]}\n'
    digits, infinite, deep = (whole.replace(b"VALUE", one) for one in (b"9" * 5000, b"1e999", b"[" * 900 + b"]" * 900))
    return digits + GOOD + deep + b"[" * 100_000 + b"\n" + infinite + b"\xff\n" + b'{"ops": 1}\n{"id\n' + BAD


@edge("register")
def digits_in_edn() -> bytes:
    return b"{:process 0, :type :invoke, :f :write, :value " + b"9" * 5000 + b"}"


@edge("register")
def digits_in_a_log() -> bytes:
    return b"0\t:invoke\t:write\t1\n1\t:invoke\t:cas\t[1 0x" + b"f" * 5000 + b"]\n"


@edge("register")
def hexadecimal_digits_in_edn() -> bytes:
    return b"{:process 0, :type :invoke, :f :write, :value 0x" + b"9" * 5000 + b"}"


@edge("register")
def numbers_that_would_all_be_infinite() -> bytes:
    return b"{:process 0 :type :invoke :f :write :value 1e999}{:process 0 :type :ok :f :write :value 1e998}"


@edge("register", True)
def spaces_within_a_log() -> bytes:
    return b"0 :invoke :write 1\n" + b" " * 100_000 + b"x y z\n" + b"0 :ok :write 1\n"


@edge("register")
def spaces_before_nothing() -> bytes:
    return b" " * 60_000 + b"x"


@edge("register")
def a_bomb() -> bytes:
    return gzip.compress(b"[" + b" " * (8 << 20))


@pytest.mark.parametrize("name", EDGES)
def test_ends_of_the_range(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    make, model, expected = EDGES[name]
    assert told(capfd, tmp_path, make(), model) == expected


def test_calls_of_one_client_that_all_overlap_are_read_in_time(tmp_path: Path) -> None:
    one = {"ClientId": 0, "Input": {"op": "write", "value": 1}, "Output": {}, "Call": 0}
    (tmp_path / "history").write_text(json.dumps([{**one, "Return": 5 + n} for n in range(20_000)]))
    began = time.process_time()
    (history,) = read(tmp_path / "history", "porcupine-json", "register")
    assert len({operation.process for operation in history.operations}) == 20_000
    assert time.process_time() - began < PATIENCE_S


def test_a_history_that_no_one_can_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from checkers.linearizable.formats import json_files

    monkeypatch.setattr(json_files, "LARGEST_TEXT", 1 << 20)
    for text in (b"[" + b" " * (2 << 20), b'{"ops": [' + b" " * (2 << 20) + b"]}"):
        (tmp_path / "large.gz").write_bytes(gzip.compress(text))
        with pytest.raises(BadInput, match="more than 1,048,576 bytes"):
            list(read(tmp_path / "large.gz", "", "register"))


@pytest.mark.full
def test_both_engines_say_the_same_of_whatever_can_be_read(tmp_path: Path) -> None:
    """Each engine has the same verdict, or none."""
    jar.build()
    collected: list[History] = []

    @settings(max_examples=1_200)
    @given(contents())
    def collect(drawn: tuple[bytes, str]) -> None:
        data, model = drawn
        (tmp_path / "history").write_bytes(data)
        collected.extend(histories(tmp_path / "history", model))

    collect()
    ours = list(checker.examine(collected, engine="python", time_limit_s=5))
    java = list(checker.examine(collected, engine="jvm", time_limit_s=5))
    assert len(ours) == len(java) == len(collected) > 400
    for history, one, other in zip(collected, ours, java, strict=True):
        assert one.valid == other.valid or None in (one.valid, other.valid), history
    assert sum(one.valid is not None and other.valid is not None for one, other in zip(ours, java, strict=True)) > 200


ODD = (b"\x00", b"[" * 5000, b'{"ops": [[]]}', b"{:process {} :type [] :f nil}", b'[{"Call": []}]', b"1", b"[1]")


def test_every_format_refuses_what_it_is_not(tmp_path: Path) -> None:
    for format in FORMATS:
        for data in ODD:
            (tmp_path / "history").write_bytes(data)
            try:
                list(read(tmp_path / "history", format, "register"))
            except BadInput as error:
                assert "history" in str(error)
