"""``stormproof new driver NAME``: the package that it writes works as it is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chaos import plugins
from chaos.deployments import process
from chaos.experiment.reader import load
from chaos.plugins import PluginKind
from chaos.testing import check_driver
from stormproof import cli
from stormproof.install import install
from tests.chaos.deployments.test_power_cuts import can_cut as can_cut  # a fixture, which skips where it can't be done
from tests.stormproof.foreign import installed

NAME = "my_broker"
FILES = {
    *("README.md", "pyproject.toml", "test_driver.py"),
    *(f"experiments/{name}.yaml" for name in ("quiet", "kill", "partition", "power")),
    *(f"stormproof_{NAME}/{name}.py" for name in ("__init__", "driver", "recipe", "server")),
}


def new(name: str, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = cli._run(["new", "driver", name])
    return code, capfd.readouterr().err


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Path:
    """The package, on the path of Python, in a current folder of its own; what it installs has a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, said = new(NAME, capfd)
    assert code == 0 and f"cd stormproof-{NAME}" in said
    folder = tmp_path / f"stormproof-{NAME}"
    site = installed(tmp_path / "site", folder)
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=":")
    for module in [name for name in sys.modules if name.startswith(f"stormproof_{NAME}")]:
        monkeypatch.delitem(sys.modules, module)
    return folder


def test_nothing_is_left_of_the_toys_own_name(package: Path) -> None:
    found = {path.relative_to(package).as_posix(): path for path in package.rglob("*") if path.is_file()}
    assert set(found) == FILES
    assert [name for name, path in found.items() if "tinyq" in path.read_text("utf-8").lower()] == []


@pytest.mark.parametrize("where", ["process", "netns"])
def test_its_experiments_can_be_run(package: Path, where: str) -> None:
    install(plugins.load(PluginKind.DRIVER, NAME).RECIPES[0], lambda text: None)
    for name in ("quiet", "kill", "partition", "power"):
        if (where, name) != ("process", "partition"):  # its comment names the only place
            load(package / "experiments" / f"{name}.yaml", deployment=where)


@pytest.mark.process
def test_its_driver_keeps_to_what_is_asked_of_drivers(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = plugins.load(PluginKind.DRIVER, NAME)
    install(driver.RECIPES[0], lambda text: None)
    monkeypatch.setattr(driver, "REQUEST_S", 0.5)
    host = process.create(run_id="check", directory=tmp_path / "run", seed=1)
    left = check_driver(driver.create(driver.Options()), deployment=host, load_s=0.5)
    assert " ".join(left) in (package / "test_driver.py").read_text("utf-8")


@pytest.mark.full
@pytest.mark.process
@pytest.mark.netns
def test_the_commands_of_its_readme_do_what_it_says(package: Path, can_cut: None) -> None:
    """To the letter, but for pip: its verdicts are those of the page."""
    lines = re.findall(r"^    (\S.*?)(?: +# (\w+).*)?$", (package / "README.md").read_text("utf-8"), re.MULTILINE)
    (pip, _), *commands = lines
    assert pip.startswith("python -m pip install")
    for line, verdict in commands:
        words = [sys.executable, "-m", *line.removeprefix("python -m ").split()]
        done = subprocess.run(words, cwd=package, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == {"": 0, "VALID": 0, "INVALID": 1}[verdict], done.stdout + done.stderr


@pytest.mark.parametrize("name", ["My-Broker", "3x", "a/../b", "", "_a", "a__b", "x" * 300])
def test_a_name_that_cannot_be_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = new(name, capfd)
    assert code == 3 and said.startswith("error: ") and said.count("error:") == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_but_drivers_has_a_template(capfd: pytest.CaptureFixture[str]) -> None:
    said = "error: there is no template for 'fault'; write `stormproof new driver NAME`\n"
    assert (cli._run(["new", "fault", "x"]), capfd.readouterr().err) == (3, said)


def test_a_driver_that_there_is_and_a_folder_that_exists_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert new("etcd", capfd) == (
        3,
        "error: there is a driver 'etcd' already (`stormproof list drivers`); choose another name\n",
    )
    (tmp_path / "stormproof-shop").mkdir()
    code, said = new("shop", capfd)
    assert (code, said) == (
        3,
        "error: stormproof-shop exists already; choose another name, or remove it\n",
    )
    assert list((tmp_path / "stormproof-shop").iterdir()) == []
