"""The wheel that containers and hosts get: the nodes' code, the same bytes for the same code, and nothing else."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.machines import node_package
from chaos.machines.node_package import node_wheel, package_digest, packages_of
from chaos.node import NodeSpec


def test_the_same_code_makes_the_same_bytes() -> None:
    again = node_package.node_wheel.__wrapped__()
    assert again == node_wheel() and again.digest == sha256(again.data).hexdigest()


def test_it_holds_the_nodes_and_not_the_harness() -> None:
    names = zipfile.ZipFile(io.BytesIO(node_wheel(("reference",)).data)).namelist()
    assert {"reference/__main__.py", "reference/mutants/__init__.py", "chaos/shell/node_process.py"} <= set(names)
    assert not [name for name in names if "runner" in name or name.startswith(("checkers", "drivers", "nemesis"))]


def test_unpacked_it_needs_nothing_but_python(tmp_path) -> None:
    with zipfile.ZipFile(io.BytesIO(node_wheel(("reference",)).data)) as archive:
        archive.extractall(tmp_path)
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import reference.__main__"
    words = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_nodes_bring_the_packages_that_they_name_and_what_these_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {"mine": "import json, theirs.deep, nowhere\nfrom chaos.node import Node\n", "theirs": "import mine\n"}
    for package, source in sources.items():
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(source)
    (tmp_path / "theirs" / "deep.py").write_text("from numpy import array\n")
    monkeypatch.syspath_prepend(tmp_path)
    spec = NodeSpec(name="n", role="r", package="mine.server")
    assert packages_of([spec]) == ("mine", "theirs"), "what is more than Python can't be brought"
    names = zipfile.ZipFile(io.BytesIO(node_wheel(("mine", "theirs")).data)).namelist()
    assert {"mine/__init__.py", "theirs/deep.py", "chaos/shell/node_process.py"} <= set(names)
    assert not [name for name in names if name.startswith("reference")]
    before = package_digest("mine")
    (tmp_path / "mine" / "server.py").touch()
    assert package_digest.__wrapped__("mine") != before
    with pytest.raises(BadInput, match="no package 'absent'"):
        packages_of([NodeSpec(name="n", role="r", package="absent")])
