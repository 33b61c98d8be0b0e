"""The file of a matrix: its rows, its columns, and one clear sentence for each mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from chaos.errors import BadInput
from stormproof.matrix.cells import cells, chosen, jobs, with_system
from stormproof.matrix.file import Column, load
from tests.reports.matrix.notes import note
from tests.stormproof.small_runs import EXPERIMENT

MATRIX = """\
runs: 2
rows:
  - experiments: [small.yaml]
    runs: 3
  - experiments: ["*.yaml"]
    except: [left*.yaml]
columns:
  - {name: as-it-is, system: reference}
  - {name: two, system: {reference: {queues: 2}}, rows: [small], runs: 1}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("small", "other", "left_out"):
        (tmp_path / f"{name}.yaml").write_text(EXPERIMENT.replace("name: small", f"name: {name}"))
    (tmp_path / "matrix.yaml").write_text(MATRIX)
    return tmp_path


def test_rows_are_files_and_never_the_matrix_itself(folder: Path) -> None:
    matrix = load(folder / "matrix.yaml")
    assert [(row.name, row.runs) for row in matrix.rows] == [("small", 3), ("other", None)]
    small, other = matrix.rows
    as_it_is, two = matrix.columns
    assert [matrix.runs_of(*cell) for cell in ((small, as_it_is), (other, as_it_is), (small, two), (other, two))] == [
        *(3, 2, 1, 0)
    ]
    assert (matrix.name, matrix.on) == ("matrix", "sim")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("runs: 2\n", "rnus: 2\n", "matrix.yaml:1: unknown key 'rnus'; did you mean 'runs'?"),
        ("runs: 2\n", "runs: 0\n", "matrix.yaml:1: runs: expected 1 to 1000, got 0"),
        ("small.yaml]", "smal.yaml]", "no experiment fits 'smal.yaml'"),
        ("system: reference}", "system: refrence}", "did you mean 'reference'?"),
        ("{queues: 2}", "{quues: 2}", "unknown key 'quues'; did you mean 'queues'?"),
        ("rows: [small]", "rows: [smal]", "column two: no row is called 'smal'; did you mean 'small'?"),
        ("rows: [small]", "lacks: {smal: a log}", "column two: no row is called 'smal'; did you mean 'small'?"),
        ("rows: [small]", "lacks: {small: 3}", "matrix.yaml:9: columns: lacks"),
        ("name: two", "name: as-it-is", "two columns are called 'as-it-is'"),
        ("runs: 2\n", "on: moon\n", "unknown deployment 'moon'"),
    ],
)
def test_a_mistake_is_one_clear_sentence(folder: Path, old: str, new: str, told: str) -> None:
    assert old in MATRIX
    (folder / "matrix.yaml").write_text(MATRIX.replace(old, new, 1))
    with pytest.raises(BadInput) as caught:
        load(folder / "matrix.yaml")
    assert [one for one in caught.value.problems if told in one] and len(caught.value.problems) <= 2


def test_files_of_one_name_are_told_apart_by_their_folders(folder: Path) -> None:
    for place in ("more", "yet/more"):
        (folder / place).mkdir(parents=True)
        (folder / place / "small.yaml").write_text(EXPERIMENT)
    text = MATRIX.replace('"*.yaml"', '"more/*.yaml"').replace("rows: [small]", 'rows: ["*/small"]')
    (folder / "matrix.yaml").write_text(text)
    assert [row.name for row in load(folder / "matrix.yaml").rows] == [f"{folder.name}/small", "more/small"]
    (folder / "matrix.yaml").write_text(text.replace('"more/*.yaml"', '"**/small.yaml"'))
    with pytest.raises(BadInput, match="two experiments are called more/small"):
        load(folder / "matrix.yaml")


def test_a_column_without_a_system_runs_experiments_as_they_are(folder: Path) -> None:
    (folder / "small.yaml").write_text(EXPERIMENT + "violates: [durability]\n")
    (folder / "matrix.yaml").write_text(MATRIX[: MATRIX.index("  - {name: as")] + "  - {name: here, on: process}\n")
    matrix = load(folder / "matrix.yaml")
    small, other = cells(matrix, folder / "home")
    assert not matrix.compares and (small.file, small.on) == (folder / "small.yaml", "process")
    assert (small.violates, other.violates) == (("durability",), ()) and small.digest == other.digest
    assert [cell.row for cell in chosen([small, other], ["s*"], [], None)] == ["small"]


def test_an_experiment_that_is_wrong_by_itself_is_no_lack_of_a_system(folder: Path) -> None:
    (folder / "other.yaml").write_text(EXPERIMENT.replace("at: 1s", "at: 9s"))
    with pytest.raises(BadInput, match=r"other\.yaml:9: faults: at: 9s is not before the end"):
        cells(load(folder / "matrix.yaml"), folder / "home")


def test_a_column_changes_the_system_and_nothing_else(folder: Path) -> None:
    found = {(one.row, one.column): one for one in cells(load(folder / "matrix.yaml"), folder / "home")}
    same, two = found["small", "as-it-is"], found["small", "two"]
    assert same.file == folder / "small.yaml"
    assert two.file == folder / "home" / "experiments" / "small-two.yaml"
    assert two.experiment and two.experiment.name == "small-two" and two.experiment.duration_s == 4.0
    assert two.experiment.system.options.queues == 2 and not two.experiment.system.options.tier
    assert same.digest == found["other", "as-it-is"].digest != two.digest, "the name of an experiment is no matter"


def test_another_driver_takes_the_options_that_it_has() -> None:
    document = {"system": {"rocketmq": {"version": "5.5.0", "brokers": 3, "shared_tier": True}}, "duration": "1s"}
    other = Column(name="reference", system={"reference": {"tier": True}}, without=("version",))
    changed = with_system(document, other)
    assert changed["system"] == {"reference": {"brokers": 3, "shared_tier": True, "tier": True}}
    assert document["system"]["rocketmq"]["version"] == "5.5.0"
    assert with_system({"system": "reference"}, Column(name="it", system={"reference": {}})) == {"system": "reference"}


def test_what_a_system_lacks_is_told_by_name(folder: Path) -> None:
    lacking = "  - {name: etcd, system: etcd, rows: [small]}\n  - {name: here, system: reference, on: process}\n"
    (folder / "matrix.yaml").write_text(MATRIX + lacking)
    (folder / "small.yaml").write_text(EXPERIMENT.replace("partition: {shape: isolate, ", "clock: {"))
    found = {(one.row, one.column): one for one in cells(load(folder / "matrix.yaml"), folder / "home")}
    assert found["small", "etcd"].lacks == "etcd has no `tier`, `queues`, `nameservers`, `broker_options`"
    assert "process" in found["small", "here"].lacks and str(folder) not in found["small", "here"].lacks
    assert not found["other", "here"].lacks
    assert ("small", "here") not in {(cell.row, cell.column) for cell, _ in jobs(found.values(), [])}


def test_jobs_take_the_first_seed_of_all_cells_first(folder: Path) -> None:
    found = cells(load(folder / "matrix.yaml"), folder / "home")
    small, two, other = found
    assert [(cell.row, cell.column, seed) for cell, seed in jobs(found, [])] == [
        *(("small", "as-it-is", 0), ("small", "two", 0), ("other", "as-it-is", 0)),
        *(("small", "as-it-is", 1), ("other", "as-it-is", 1), ("small", "as-it-is", 2)),
    ]
    known = [
        note(row="small", column="two", digest=two.digest, seed=0),
        note(row="small", column="as-it-is", digest=small.digest, seed=1, verdict="UNKNOWN"),
        note(row="other", column="as-it-is", digest="of another day", seed=0),
    ]
    left = [("small", 0), ("other", 0), ("other", 1), ("small", 2)]
    assert [(cell.row, seed) for cell, seed in jobs(found, known)] == left
    assert [(cell.row, seed) for cell, seed in jobs(found, known, again=True)] == [*left[:2], ("small", 1), *left[2:]]
    assert other.runs == 2


def test_a_column_says_itself_what_its_system_lacks_for_a_row(folder: Path) -> None:
    text = MATRIX.replace("system: reference}", "system: reference, lacks: {small: has no such file}}")
    (folder / "matrix.yaml").write_text(text)
    found = {(one.row, one.column): one for one in cells(load(folder / "matrix.yaml"), folder / "home")}
    assert found["small", "as-it-is"].lacks == "has no such file" and found["small", "as-it-is"].experiment is None
    assert not found["other", "as-it-is"].lacks and not found["small", "two"].lacks


def test_what_must_be_installed_first_is_no_lack_of_a_system(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the experiment's own system, nor another version of it that a fault goes to."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "nowhere"))
    upgrade = Path(__file__).parents[3] / "examples" / "systems" / "etcd" / "upgrade.yaml"
    (folder / "small.yaml").write_text(upgrade.read_text("utf-8"))
    (folder / "matrix.yaml").write_text("rows: [{experiments: [small.yaml]}]\ncolumns: [{name: here, on: process}]\n")
    matrix = replace(load(folder / "matrix.yaml"), on="process")
    (cell,) = cells(matrix, folder / "home")
    assert cell.uninstalled.startswith("etcd 3.5.17 is not installed here: `stormproof install etcd@3.5.17`")
    assert not cell.lacks and [seed for _, seed in jobs([cell], [])] == [0, 1, 2]
