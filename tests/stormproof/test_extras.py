"""The wheel by itself and with each of its extras, installed by pip, on this Python and on the newest one here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stormproof.test_wheel import wheel_of

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = {name: needs for name, needs in PROJECT["optional-dependencies"].items() if name != "dev"}
#: Hundreds of megabytes, without which everything but ``--engine spark`` works.
LARGE = ("pyspark", "py4j")
EXPERIMENT = """\
name: alone
system: reference
duration: 3s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 20}
"""
OFFLINE = ("NewConnectionError", "NameResolutionError", "Temporary failure", "No matching distribution")


def newest() -> str:
    """Return the newest Python that this machine has, "" where it is the one that runs this."""
    ours = sys.version_info[1]
    for minor in range(ours + 8, ours, -1):
        found = [
            shutil.which(f"python3.{minor}"),
            *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3")),
        ]
        for path in filter(None, found):
            if subprocess.run([path, "-c", "import ensurepip, ssl, venv"], capture_output=True).returncode == 0:
                return path
    return ""


@pytest.fixture(scope="module", params=["this", "newest"])
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The Python of an environment with the wheel and what it needs, but for :data:`LARGE`."""
    chosen = sys.executable if request.param == "this" else newest()
    if not chosen:
        pytest.skip(f"there is no newer Python here than {sys.version_info[0]}.{sys.version_info[1]}")
    home = tmp_path_factory.mktemp("alone")
    subprocess.run([chosen, "-m", "venv", home / "venv"], check=True, capture_output=True, timeout=300)
    python = home / "venv" / "bin" / "python"
    needs = [need for need in PROJECT["dependencies"] if not need.startswith(LARGE)]
    pip(python, *needs)
    pip(python, "--no-deps", str(wheel_of(ROOT, home)))
    yield python
    shutil.rmtree(home)


def pip(python: Path, *words: str) -> None:
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode and any(word in done.stderr for word in OFFLINE):
        pytest.skip(f"pip found no registry: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


def stormproof(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    ours = ("PYTHONPATH", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    command = [python, "-P", "-m", "stormproof", *words]
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)


@pytest.mark.full
def test_the_wheel_works_by_itself_and_with_each_extra(python: Path, tmp_path: Path) -> None:
    (tmp_path / "alone.yaml").write_text(EXPERIMENT)
    words = ("run", "alone.yaml", "--on", "sim", "--engine", "local", "--json")
    assert json.loads(stormproof(python, tmp_path, *words).stdout)["verdict"] == "VALID"
    kafka = ("run", "kafka/quickstart", "--on", "process")
    assert "pip install 'stormproof[kafka]'" in stormproof(python, tmp_path, *kafka).stderr

    def extras() -> dict[str, bool]:
        found = json.loads(stormproof(python, tmp_path, "doctor", "--json").stdout)
        return {one["what"].removeprefix("Extra "): one["ok"] for one in found if one["what"].startswith("Extra ")}

    assert extras() == dict.fromkeys(EXTRAS, False)
    for extra, needs in EXTRAS.items():
        pip(python, *needs)
        assert extras()[extra], extra
    told = stormproof(python, tmp_path, *kafka).stderr
    assert re.search(r"kafka [\d.]+ is not installed here: `stormproof install kafka@", told), told
