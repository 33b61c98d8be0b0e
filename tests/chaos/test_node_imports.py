"""Node code runs on bare hosts: what it builds on loads the standard library only."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = """\
import json, sys
before = set(sys.modules)
import {module}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(module: str) -> tuple[list[str], set[str]]:
    """What a fresh interpreter loads for this module: modules of ours, and packages of neither ours nor Python's."""
    script = LOADED.format(module=module)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    names = json.loads(done.stdout)
    ours = [name for name in names if name.split(".")[0] in ("chaos", "reference", "stormproof")]
    others = {name.split(".")[0] for name in names if name not in ours} - set(sys.stdlib_module_names)
    return ours, {name for name in others if not name.startswith("__editable__")}


def test_the_page_of_a_nodes_author_loads_itself_only() -> None:
    assert loaded_by("chaos.node") == (["chaos", "chaos.events", "chaos.node", "chaos.program"], set())


@pytest.mark.parametrize("module", ["chaos.shell.node_process", "reference", "reference.console"])
def test_what_runs_on_a_bare_host_loads_no_package_of_others(module: str) -> None:
    ours, others = loaded_by(module)
    assert not others
    assert not [name for name in ours if name.startswith(("stormproof", "chaos.run", "chaos.deployments"))]
