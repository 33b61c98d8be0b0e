"""The checker's public names: they exist, the page explains each, and importing the package loads none of them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import checkers.linearizable
from checkers.linearizable import public

PAGE = (Path(__file__).parents[3] / "docs" / "linearizability.md").read_text("utf-8")
NAMES = {name for name in vars(public) if not name.startswith("_")} - {"annotations"}


def test_the_page_names_what_is_public() -> None:
    table = PAGE.partition("\n## From Python\n")[2].partition("\n## ")[0].partition("| names |")[2]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.partition(" | ")[0])}
    assert named == NAMES and len(NAMES) <= 40


def test_the_package_has_the_public_names_and_no_others() -> None:
    assert all(getattr(checkers.linearizable, name) is getattr(public, name) for name in NAMES)
    with pytest.raises(AttributeError, match="nothing"):
        _ = checkers.linearizable.nothing  # type: ignore[attr-defined]


def test_importing_the_package_loads_none_of_its_searches() -> None:
    script = "import sys, checkers.linearizable; print(*(name for name in sys.modules if 'linearizable' in name))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) == {f"checkers.linearizable{module}" for module in ("", ".history", ".paths")}


@pytest.mark.parametrize("module", ["checker", "batches", "law"])
def test_each_module_can_be_the_first_that_is_imported(module: str) -> None:
    """As where a law looks for its search."""
    subprocess.run([sys.executable, "-c", f"import checkers.linearizable.{module}"], check=True)
