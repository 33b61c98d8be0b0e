"""Recorded histories with known verdicts: ours, which cover every format, model and convention, and the shared ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checkers.linearizable import jar as _jar
from checkers.linearizable.checker import examine
from checkers.linearizable.formats.files import read
from checkers.linearizable.history import History, Result

HERE = Path(__file__).parent / "vectors"
SHARED = Path(__file__).parents[3].parent / "shared" / "data"
MODELS = sorted(path.stem for path in HERE.glob("*.jsonl"))


@pytest.fixture(scope="module", autouse=True)
def jar() -> None:
    _jar.build()


def judge(histories: list[History], engine: str) -> dict[object, bool | None]:
    return {one.id: one.valid for one in examine(histories, engine=engine, memory_mib=512)}


def files(folder: Path, format: str, valid: Callable[[Path], bool]) -> Iterator[tuple[History, bool]]:
    for path in sorted(folder.rglob("*.*")):
        if path.name != "EXPECTED.txt" and path.suffix != ".html":
            model = path.parent.parent.name if format == "knossos" else ""
            for history in read(path, format, model):
                yield history, valid(path)


@pytest.mark.parametrize("engine", ["jvm", "python"])
@pytest.mark.parametrize("model", MODELS)
def test_our_own_vectors(model: str, engine: str) -> None:
    path = HERE / f"{model}.jsonl"
    expected = {one["id"]: one["valid"] for one in map(json.loads, path.read_text().splitlines())}
    assert {True, False} <= set(expected.values())
    found = judge(list(read(path)), engine)
    assert {name: valid for name, valid in found.items() if valid is not expected[name]} == {}
    assert len(found) == len(expected)


@pytest.mark.parametrize("engine", ["jvm", "python"])
@pytest.mark.parametrize(
    ("folder", "format"), [("knossos", "knossos"), ("etcd", "porcupine-etcd"), ("kv", "porcupine-kv")]
)
def test_our_own_files_in_the_forms_of_others(folder: str, format: str, engine: str) -> None:
    wanted = list(files(HERE / folder, format, lambda path: "bad" not in f"{path.parent.name}/{path.name}"))
    assert {valid for _, valid in wanted} == {True, False}
    found = judge([history for history, _ in wanted], engine)
    assert found == {history.id: valid for history, valid in wanted}


@pytest.fixture
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the shared recorded histories are not here ({SHARED})")
    return SHARED


def agree(wanted: list[tuple[History, bool]]) -> list[Result]:
    results = list(examine([history for history, _ in wanted]))
    wrong = [one.id for one, (_, valid) in zip(results, wanted, strict=True) if one.valid is not valid]
    assert not wrong
    return results


def test_etcds_logs(shared: Path) -> None:
    lines = (shared / "porcupine" / "etcd" / "EXPECTED.txt").read_text().splitlines()
    good = {line.strip() for line in lines if line and line[0] != "#"}
    wanted = list(files(shared / "porcupine" / "etcd", "", lambda path: path.name in good))
    assert len(wanted) > 50 and good <= {history.id for history, _ in wanted}
    agree(wanted)


def test_porcupines_maps(shared: Path) -> None:
    agree(list(files(shared / "porcupine" / "kv", "", lambda path: path.stem.endswith("ok"))))


def test_knossos_files(shared: Path) -> None:
    wanted = list(files(shared / "knossos", "knossos", lambda path: path.parent.name == "good"))
    assert len(wanted) > 50
    agree(wanted)


@pytest.mark.parametrize(
    ("name", "index"), [("bad-analysis", 14), ("rethink-fail-minimal", 4), ("immediate-failure", 3)]
)
def test_the_operation_that_fails_is_the_known_one(shared: Path, name: str, index: int) -> None:
    (history,) = read(shared / "knossos" / "cas-register" / "bad" / f"{name}.edn", model="cas-register")
    (result,) = examine([history])
    assert result.witness is not None
    assert history.operations[result.witness.blocked].ret == index
