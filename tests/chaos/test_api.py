"""The public page: complete in what it says of each name, documented, and light."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos import api

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "chaos/api.py").read_text("utf-8")
PAGES = {path.stem: path.read_text("utf-8") for path in (ROOT / "docs/plugins").glob("*.md")}
#: So many names a page may have: a reader learns a page at a time.
MOST_NAMES = 40


def test_each_name_stands_once_with_a_line_of_its_own() -> None:
    listed = re.findall(r'^    "(\w+)",  # \S.*$', SOURCE, re.MULTILINE)
    assert listed == api.__all__ and len(set(listed)) == len(listed)


def mentioned(name: str) -> list[str]:
    return [page for page, text in PAGES.items() if re.search(rf"`{name}\b", text)]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_few_names(page: str) -> None:
    assert sum(page in mentioned(name) for name in api.__all__) <= MOST_NAMES


@pytest.mark.parametrize("name", api.__all__)
def test_each_name_is_explained_where_it_is_defined_and_mentioned_in_the_docs(name: str) -> None:
    found = getattr(api, name)
    if inspect.isclass(found) or inspect.isfunction(found):
        text = (vars(found).get("__doc__") if inspect.isclass(found) else found.__doc__) or ""
        assert text.strip() and not text.startswith(f"{name}("), f"{found.__module__}.{name} has no docstring"
    assert mentioned(name), f"no page of docs/plugins mentions {name}"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        _ = api.nothing


@pytest.mark.parametrize(
    ("module", "ours"), [("chaos.node", {"chaos", "chaos.events", "chaos.node", "chaos.program"}), ("chaos.api", None)]
)
def test_importing_it_loads_the_standard_library_only(module: str, ours: set[str] | None) -> None:
    """``-S``: without the site packages, as on a bare host."""
    script = f"import sys; before = set(sys.modules); import {module}; print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-S", "-c", script]
    loaded = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    mine = {name for name in loaded if name.split(".")[0] == "chaos"}
    assert {name.split(".")[0] for name in loaded} - set(sys.stdlib_module_names) == {"chaos"}
    assert ours is None or mine == ours
