"""What is counted is what runs, and counting changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from benchmarks.mutation.mutants import Mutant, all_mutants, draw, is_trivial
from benchmarks.mutation.operators import changes
from benchmarks.mutation.planting import Hits, counting, statement_line

SOURCE = '''\
"""A file."""
LIMIT = 3


def f(values):
    """Say how many."""
    found = 0
    for value in values:
        if (
            value
            and value < LIMIT
        ):
            found += 1
        elif value == 9:
            return -1
        else:
            try:
                found += [one for one in (1, 2)][value]
            except IndexError:
                found -= 1
    return found
'''


def ran(values: list[int]) -> tuple[int, Mapping[str, int]]:
    hits = Hits({"f": [0] * 30})
    names = {"__hits__": hits.by_file["f"]}
    exec(counting(SOURCE, "f.py"), names)
    return names["f"](values), hits.seen()["f"]  # type: ignore[operator]


def test_each_statement_is_counted_where_it_begins() -> None:
    found, lines = ran([1, 2, 9])
    assert found == -1
    assert lines == {"6": 1, "7": 1, "8": 1, "9": 3, "13": 2, "14": 1, "15": 1}
    assert ran([5])[1] == {"6": 1, "7": 1, "8": 1, "9": 1, "14": 1, "17": 1, "18": 1, "20": 1, "21": 1}


def test_a_place_in_a_statement_counts_as_the_statement() -> None:
    assert [statement_line(SOURCE, line) for line in (8, 10, 11, 13, 14, 18, 20)] == [8, 9, 9, 13, 14, 18, 20]


def test_what_compiles_to_the_same_program_is_not_drawn(tmp_path: Path) -> None:
    file = tmp_path / "reference" / "f.py"
    file.parent.mkdir()
    file.write_text("def f(a, b):\n    return a + (2 - 1)\n\n\ndef g(a):\n    return a < 1\n")
    made = all_mutants(tmp_path)
    change = changes(file.read_text())[0]
    same = Mutant(id="f:f:same:000000", path="reference/f.py", change=replace(change, new=change.old + " "))
    assert is_trivial(same, tmp_path) and not any(is_trivial(one, tmp_path) for one in made if one.change.new != "1")
    drawn = draw([same, *made], seed=1, count=len(made) + 1, root=tmp_path)
    assert drawn.trivial == (same,) and set(drawn.mutants) == set(made)
