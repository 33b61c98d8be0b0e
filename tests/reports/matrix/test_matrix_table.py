"""The table of a matrix counts the runs that a law judged; pictures and pages say the same."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from chaos.errors import BadInput
from reports.matrix import html, pictures
from reports.matrix.as_markdown import BEGIN, END, between_marks, markdown
from reports.matrix.note import Outage, append, read
from reports.matrix.table import Place, Table, table
from stormproof.commands.matrix import _table as made_of
from stormproof.matrix.cells import cells
from stormproof.matrix.file import load
from tests.reports.matrix.notes import note

ROOT = Path(__file__).parents[3]
LOST = {"durability": "INVALID", "roles": "NOT APPLICABLE", "order": "UNKNOWN"}


@pytest.fixture
def little() -> Table:
    places = [
        Place(row="small", column="one", on="sim", wanted=3, digest="d"),
        Place(row="small", column="<two>", on="sim", wanted=3, digest="d", lacks="two has no `tier`"),
    ]
    kill = Outage(fault="kill master", without_s=2.0)
    notes = [
        note(outages=(kill, Outage(fault="kill master", without_s=4.0))),
        note(seed=1, verdict="INVALID", laws=LOST, anomalies={"lost": 2}, without_s=9.0, outages=(kill,)),
        note(seed=2, verdict="UNKNOWN", laws={"durability": "UNKNOWN"}, recovered_s=-1.0, without_s=None),
        note(digest="of another day", verdict="INVALID"),
        note(row="gone"),
    ]
    return table("little", places, notes)


def test_cells_count_the_runs_that_a_law_judged(little: Table) -> None:
    line = little.line("small", "one")
    assert line is not None
    assert {law: str(share) for law, share in line.laws.items()} == {"durability": "1/2", "roles": "n/a", "order": "?"}
    assert (str(line.without), str(line.recovery), line.most) == ("5.0 / 9.0", "0.5 / 0.5", {"lost": 2})
    assert str(little.faults["kill master"]["one"]) == "2.0 / 4.0" and little.faults["kill master"]["one"].count == 3
    assert (little.laws, little.outdated) == (["durability", "order"], 2)


def test_a_table_in_markdown(little: Table) -> None:
    head, _, first, second, _, *faults = markdown(little).splitlines()
    assert "| durability | order |" in head and "roles" not in head
    assert first == "| `small` | one | 3 | 1/2 | ? | lost 2 | 5.0 / 9.0 | 0.5 / 0.5 |"
    assert second == "| `small` | \\<two\\> | n/a | n/a | n/a | two has no \\`tier\\` | – | – |"
    assert faults[2] == "| kill master | 2.0 / 4.0 (3) |  |"


def test_what_an_experiment_is_made_to_break_is_expected_and_nothing_else() -> None:
    words = {"row": "weak", "on": "sim", "wanted": 3, "digest": "d"}
    lost = {"durability": "INVALID", "order": "INVALID"}
    notes = [
        note(
            row="weak", column="whole", verdict="INVALID", laws={**lost, "order": "VALID"}, cause="the cut", seconds=9.0
        ),
        note(row="weak", column="whole", seed=1, verdict="INVALID", laws=lost, anomalies={"lost": 2}, system="k 3.9"),
        note(row="weak", column="vain"),
        note(row="weak", column="vain", seed=1, verdict="UNKNOWN", laws={}, why=("it stood still",)),
        note(row="weak", column="safe", by_policy=2, line="VALID; 2 lost", cause="", seconds=3.0),
    ]
    whole, vain, refused, safe, idle = (
        Place(**words, column=column, lacks=lacks, violates=violates)
        for column, lacks, violates in (
            ("whole", "", ("durability",)),
            ("vain", "", ("durability",)),
            ("refused", "no links", ()),
            ("safe", "", ()),
            ("idle", "", ()),
        )
    )
    assert whole.is_expected(notes[0]) and not whole.is_expected(notes[1]) and not safe.is_expected(notes[0])
    made = table("it", [whole, vain, refused, safe, idle], notes, compares=False)
    assert [line.in_vain for line in made.lines] == [False, True, False, False, False]
    head, _, *rows = markdown(made).splitlines()
    assert (
        head == "| experiment | on | system | VALID | INVALID | UNKNOWN | s a run, p50 / max | what came out, and why |"
    )
    assert rows[0].startswith(
        "| `weak` | whole | k 3.9 | 0 | 2 | 0 | 9.0 / 9.0 | NOT AS EXPECTED: 1 of 2 broke order<br>"
    )
    assert "broke durability in 2/2, order in 1/2; most in a run: lost 2<br>seed 0: the cut |" in rows[0]
    assert rows[1].endswith("| 1 of 2 decided nothing; none broke durability<br>seed 1: it stood still |".replace(
        "| 1", "| NOT AS EXPECTED: 1"
    ))  # fmt: skip
    assert rows[2] == "| `weak` | refused | – | n/a | n/a | n/a | – | no links |"
    assert rows[3].endswith("| 1 | 0 | 0 | 3.0 / 3.0 | 2 lost by policy in 1 of 1 runs; seed 0: VALID; 2 lost |")
    assert rows[4] == "| `weak` | idle | – | – | – | – | – | not run yet |"


def test_a_table_stands_between_its_marks() -> None:
    assert between_marks(f"a\n{BEGIN}old\n{END}b\n", "new\n", "it") == f"a\n{BEGIN}\nnew\n\n{END}b\n"
    with pytest.raises(BadInput, match=r"page\.md must hold the lines"):
        between_marks("nothing", "new\n", "page.md")


def test_pictures_are_whole_and_say_why_there_is_nothing(little: Table, tmp_path: Path) -> None:
    assert list(pictures.write(tmp_path, little).values()) == ["grid.svg", "times.svg"]
    grid = ElementTree.fromstring((tmp_path / "grid.svg").read_text())
    told = [one.text for one in grid.iter("{http://www.w3.org/2000/svg}title")]
    assert "small on one, durability: INVALID, 1 of 2 runs INVALID" in told
    assert "small on <two>: n/a, two has no `tier`" in told
    times = ElementTree.fromstring((tmp_path / "times.svg").read_text())
    words = [one.text for one in times.iter("{http://www.w3.org/2000/svg}title")]
    assert "kill master on one: p50 2.0 s, max 4.0 s, 3 times" in words


def test_the_page_leads_to_runs_that_have_a_report(tmp_path: Path) -> None:
    places = [Place(row="small", column="one", on="sim", wanted=3, digest="d")]
    (tmp_path / "runs" / "here").mkdir(parents=True)
    (tmp_path / "runs" / "here" / "report.html").touch()
    page = html.page(tmp_path, "runs", table("it", places, [note(run="here"), note(run="gone"), note(run="../here")]))
    assert page.count("href=") == 1 and 'href="runs/here/report.html"' in page
    assert "3 of 3 runs" in page and "kill" not in page


def test_notes_are_read_as_they_were_written(tmp_path: Path) -> None:
    written = [note(outages=(Outage(fault="kill master", without_s=1.5),), why=("it stood still",)), note(seed=1)]
    append(tmp_path / "notes.jsonl", written[:1])
    append(tmp_path / "notes.jsonl", written[1:])
    assert read(tmp_path / "notes.jsonl") == written
    assert read(tmp_path / "none.jsonl") == []


def test_the_table_of_rocketmq_is_made_from_its_notes(tmp_path: Path) -> None:
    """Whatever of RocketMQ is installed here."""
    matrix = load(ROOT / "benchmarks" / "rocketmq_matrix.yaml")
    made = made_of(matrix, cells(matrix, tmp_path), ROOT / "benchmarks" / "rocketmq_runs.jsonl")
    page = ROOT / "benchmarks" / "results" / "rocketmq.md"
    shown = {what: f"rocketmq/{name}" for what, name in pictures.write(tmp_path, made).items()}
    assert between_marks(page.read_text("utf-8"), markdown(made, shown), str(page)) == page.read_text("utf-8")
    for name in shown.values():
        assert (page.parent / name).read_bytes() == (tmp_path / Path(name).name).read_bytes(), name
