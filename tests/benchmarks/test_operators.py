"""Each operator changes what it says, once in each place, and nothing that only tells of the system."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.mutation.mutants import ROOT, Mutant, all_mutants, draw, files
from benchmarks.mutation.operators import Operator, changes


def changed(body: str, operator: Operator) -> list[str]:
    """What the operator makes of the last lines of a function ``f``; each as written by ``ast.unparse``."""
    source = "def f(self, env, a, b, c, x):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    data = source.encode()
    found = [change for change in changes(source) if change.operator is operator]
    made = [ast.unparse(ast.parse(data[: one.start] + one.new.encode() + data[one.end :])) for one in found]
    return [text.partition("\n")[2].replace("\n    ", "\n").strip() for text in made]


@pytest.mark.parametrize(
    ("operator", "body", "expected"),
    [
        (
            Operator.DROP_CONDITION,
            "return a and (b or c)",
            ["return b or c", "return a", "return a and c", "return a and b"],
        ),
        (Operator.DROP_CONDITION, "if a:\n    return 1\nx()", ["if False:\n    return 1\nx()"]),
        (Operator.DROP_CONDITION, "if a:\n    x()", ["if True:\n    x()"]),
        (Operator.DROP_CONDITION, "return [one for one in x if one]", ["return [one for one in x if True]"]),
        (Operator.DROP_CONDITION, "return a if b else c", ["return a if True else c", "return a if False else c"]),
        (Operator.TURN_CONDITION, "return a <= b", ["return a > b"]),
        (Operator.TURN_CONDITION, "return a not in x", ["return a in x"]),
        (Operator.TURN_CONDITION, "return not a.b", ["return a.b"]),
        (Operator.TURN_CONDITION, "return (a) == (b)", ["return a != b"]),
        (Operator.OFF_BY_ONE, "return a < b", ["return a <= b"]),
        (Operator.OFF_BY_ONE, "return x[-1]", ["return x[0]", "return x[-2]"]),
        (Operator.OFF_BY_ONE, "return a + 1", ["return a + 2", "return a + 0"]),
        (Operator.MIN_MAX, "return min(a, b)", ["return max(a, b)"]),
        (Operator.DROP_BOUND, "return min(a, b, c)", ["return min(b, c)", "return min(a, c)", "return min(a, b)"]),
        (Operator.DROP_BOUND, "return max(a, b) + c", ["return b + c", "return a + c"]),
        (Operator.DROP_AFTER, "env.send(a, b, after=c)", ["env.send(a, b)"]),
        (Operator.DROP_CLEAR, "del x[:a]", ["pass"]),
        (Operator.DROP_CLEAR, "x.clear()\nreturn a", ["pass\nreturn a"]),
        (Operator.DROP_STEP, "self.tell(env)", ["pass"]),
        (Operator.SWAP_STEPS, "self.a = 1\nx()", ["x()\nself.a = 1"]),
        (Operator.KEEP_STALE, "self.a, x[0] = b", ["pass"]),
        (Operator.KEEP_STALE, "x.a += b", ["pass"]),
    ],
)
def test_operators_change_one_place(operator: Operator, body: str, expected: list[str]) -> None:
    assert changed(body, operator) == expected


@pytest.mark.parametrize(
    "body",
    [
        'env.trace("confirm", position=max(a, b) + 1)',
        'raise ValueError("a" if a < b else "b")',
        'return f"{a + 1}"',
        "x: int = a",
        "return a.reply(remark=b if c else a)",
        "a = b()\nreturn a",
    ],
)
def test_what_only_tells_is_left_alone(body: str) -> None:
    source = "def f(env, a, b, c):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    assert changes(source) == []


def test_steps_that_need_each_other_stay_in_order() -> None:
    assert changed("a = x()\nself.b = a", Operator.SWAP_STEPS) == []
    assert changed("self.a = 1\nself.b = 2", Operator.SWAP_STEPS) == []


def test_constructors_keep_what_they_set() -> None:
    source = "class C:\n    def __init__(self):\n        self.a = 1\n    def g(self):\n        self.a = 2\n"
    assert [change.place for change in changes(source)] == ["C.g"]


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return all_mutants()


def test_every_mutant_has_a_name_of_its_own_and_compiles(mutants: list[Mutant]) -> None:
    assert len({mutant.id for mutant in mutants}) == len(mutants) > 1000
    assert {mutant.operator for mutant in mutants} == set(Operator)
    for mutant in draw(mutants, 1, 15).mutants:
        compile(mutant.source(), mutant.path, "exec")


def test_a_larger_sample_begins_with_the_smaller_one(mutants: list[Mutant]) -> None:
    drawn = [draw(mutants, seed, count).mutants for seed, count in ((7, 50), (7, 20), (8, 20))]
    assert drawn[0][:20] == drawn[1] != drawn[2]


def test_an_edit_elsewhere_leaves_the_names(mutants: list[Mutant], tmp_path: Path) -> None:
    path = next(path for path in files() if path.name == "replication.py")
    name = path.relative_to(ROOT)
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("# moved\n\n" + path.read_text("utf-8"), "utf-8")
    before = [mutant.id for mutant in mutants if mutant.path == name.as_posix()]
    assert before and [mutant.id for mutant in all_mutants(tmp_path)] == before


def test_planted_bugs_and_programs_are_not_changed(mutants: list[Mutant]) -> None:
    paths = {mutant.path for mutant in mutants}
    assert not [path for path in paths if "mutants" in path or "__main__" in path or path.endswith("/console.py")]
