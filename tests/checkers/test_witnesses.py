"""The table of ``checkers/witnesses.md`` names every field that a law reads, who reports it, and who else could. It
has lines of its own for what a law reads from the day on which the law has a page of its own in ``docs/promises``."""

from __future__ import annotations

import ast
import re
from collections.abc import Container, Iterator
from pathlib import Path

from chaos.history.columns import COLUMNS
from chaos.judging.registry import registry

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "checkers" / "witnesses.md"
KINDS = ("op", "trace", "final", "poll", "harness", "fault")
#: A law's own words, which it hands from one of its methods to another.
OWN = {"acked", "longest_s", "owed_ms", "recover_s", "requests", "tellers"}
#: What is no law, and the law that has a page of its own.
APART = ("_goals", "linearizable")
#: The methods by which laws ask for a field of a row's value.
READERS = {"get", "numbers", "words"}


def table() -> list[list[str]]:
    text = PAGE.read_text("utf-8").split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([\w.-]+)`", cell)


def told() -> set[tuple[str, str]]:
    """(kind, f) of the rows that the table names; f is "" for all of a kind."""
    found = set()
    for rows, *_ in table():
        kind, *names = quoted(rows) or [""]
        if kind in KINDS:
            found |= {(kind, name) for name in names} or {(kind, "")}
    return found


def described() -> set[str]:
    """The laws that have a page of their own, with more than what is made from their class."""
    pages = (ROOT / "docs" / "promises").glob("*.md")
    return {path.stem for path in pages if "\n## " in path.read_text("utf-8")}


def declared(laws: Container[str]) -> set[tuple[str, str]]:
    kernels = [kernel for kernel in registry().kernels.values() if kernel.promise.name in laws]
    reads = [reads for kernel in kernels for reads in kernel.needs.rows]
    return {(one.kind, f) for one in reads for f in (one.f or ("",))}


def fields_read() -> Iterator[str]:
    """Names that the code of laws asks values of rows for; ``fact`` is a kernel's own, ``detail`` the harness's. What
    is said of objects has its own page."""
    folder, laws = ROOT / "checkers", described()
    new = {module for (module, _), kernel in registry().kernels.items() if kernel.promise.name not in laws}
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).with_suffix("").parts[0] in {*APART, *new}:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
                continue
            if isinstance(node.func.value, ast.Name) and node.func.value.id in ("fact", "detail"):
                continue
            first = node.args[0]
            if node.func.attr in READERS and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def test_each_row_names_what_shows_a_lie_or_why_nobody_is_asked() -> None:
    kinds = {kind.name for promise in registry().promises for kind in promise.anomalies}
    for rows, fields, witness, second in table():
        assert rows and fields and witness
        assert kinds & set(quoted(second)) or "trusted, because" in second or "UNKNOWN" in second, rows


def test_the_table_has_all_rows_that_laws_declare_and_no_others() -> None:
    laws = {promise.name for promise in registry().promises}
    assert {"durability", "agreement", "answers"} <= described() <= laws
    assert declared(described()) - told() == set()
    assert told() - declared(laws) == set()


def test_the_table_has_all_fields_that_laws_read() -> None:
    listed = {name for row in table() for name in quoted(row[1])}
    assert set(fields_read()) - listed - OWN == set()


def test_the_table_names_only_fields_that_there_are() -> None:
    docs = ROOT / "docs"
    paths = (docs / "history.md", docs / "laws.md", *docs.glob("promises/*.md"))
    pages = [path.read_text("utf-8") for path in paths]
    known = {*COLUMNS, *(word for page in pages for word in re.findall(r"\w+", page))}
    assert {name for row in table() for name in quoted(row[1])} - known == set()


def test_the_anomalies_that_the_table_names_exist() -> None:
    kinds = {kind.name for promise in registry().promises for kind in promise.anomalies}
    named = {name for row in table() for name in quoted(row[3]) if "-" in name}
    assert named - kinds == set()
