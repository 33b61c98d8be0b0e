"""What is installed is what is in the tree, and plug-ins of other packages work with it, outside of any checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.deployments.storms import effective
from tests.ordinary_user import command_of_ordinary_user, folder_of_an_ordinary_user, python_of_ordinary_user
from tests.stormproof.foreign import ANYWHERE, PARTITION
from tests.stormproof.foreign import EXPERIMENT as TINYQ

ROOT = Path(__file__).parents[2]
OUTSIDE = Path(__file__).parent / "outside"
#: Our packages, and the folders in the tree that they are made from.
FOLDERS = {
    **{name: name for name in ("stormproof", "chaos", "checkers", "drivers", "nemesis", "reference", "reports")},
    "workloads": "workloads",
    "stormproof/examples": "examples",
    "stormproof/scenario_files": "tests/scenarios",
    "stormproof/images": "images",
}
#: Shipped whole, whatever its files are.
TEMPLATE = ROOT / "stormproof" / "driver_package"
SHIPPED = {".py", ".typed", ".yaml", ".j2", ".css", ".js", ".java", ".jar", ".Dockerfile", ".sh", ".xml"}
EXPERIMENT = """\
name: outside
system:
  reference: {tier: false}
duration: 6s
workloads:
  - queue: {producers: 1, consumers: 1, rate_per_s: 20}
  - trickle
faults:
  - hiccup: {target: slave}
    at: 1s
    for: 500ms
"""


def wheel_of(source: Path, folder: Path) -> Path:
    """Build a wheel from a copy, so that nothing is left in the tree."""
    left_out = shutil.ignore_patterns(".*", "__pycache__", "tests", "benchmarks", "runs", "build", "*.egg-info")
    copy = folder / f"{source.name}-source"
    shutil.copytree(source, copy, ignore=left_out)
    if source == ROOT:
        shutil.copytree(ROOT / "tests" / "scenarios", copy / "tests" / "scenarios", ignore=left_out)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*command, str(copy)], check=True, capture_output=True, timeout=120)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_of(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def toy_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_of(OUTSIDE, tmp_path_factory.mktemp("outside"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path, toy_wheel: Path) -> Path:
    """The Python of an environment with the wheel, its dependencies, and the package from outside."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "venv", with_pip=False)
    python = home / "venv" / "bin" / "python"
    words = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip())
    for package in (wheel, toy_wheel):
        with zipfile.ZipFile(package) as archive:
            archive.extractall(site)
    # Dependencies alone come from here: a folder that a .pth file names doesn't have its own .pth files read.
    places = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join([*places, ""]))
    return python


def stormproof(python: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [python, "-m", "stormproof", *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=240
    )


def run(python: Path, folder: Path) -> dict[str, object]:
    (folder / "outside.yaml").write_text(EXPERIMENT)
    done = stormproof(python, folder, "run", "outside.yaml", "--on", "sim", "--engine", "local", "--json")
    assert done.stdout, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_the_wheel_holds_what_the_tree_does_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if "__pycache__" not in path.parts and path.is_file()
        if path.suffix in SHIPPED or path.is_relative_to(TEMPLATE)
    }
    assert found == wanted
    assert {name.split("/")[0] for name in found} == {package.split("/")[0] for package in FOLDERS}
    assert {f"{package}/py.typed" for package in FOLDERS if "/" not in package} <= found


@pytest.fixture(scope="module")
def recorded(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose fault, workload and law are from outside."""
    folder = tmp_path_factory.mktemp("recorded")
    assert run(installed, folder)["verdict"] == "VALID"
    (found,) = folder.glob("runs/*/verdict.json")
    return found.parent


@pytest.mark.full
def test_the_plug_in_for_pytest_comes_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.yaml").write_text(EXPERIMENT)
    test = "import stormproof\n\n@stormproof.scenario('outside.yaml', seeds=(0, 1))\ndef test_it(): ...\n"
    (tmp_path / "test_outside.py").write_text(test)
    command = [installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    ours = ("PYTHONPATH", "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout


def laws_of(recorded: Path) -> dict[str, dict[str, Any]]:
    return {law["law"]: law for law in json.loads((recorded / "verdict.json").read_text())["laws"]}


@pytest.mark.full
def test_a_package_from_outside_brings_a_fault_a_workload_and_a_law(
    installed: Path, recorded: Path, tmp_path: Path
) -> None:
    where = subprocess.run(
        [installed, "-c", "import chaos, mystorm; print(chaos.__file__)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(installed.parents[1]) in where.stdout
    laws = laws_of(recorded)
    assert laws["read-back"]["validity"] == "VALID" and laws["read-back"]["counts"]["toy_acked"] > 0
    assert laws["durability"]["validity"] == "VALID"


@pytest.mark.parametrize(
    "breakage",
    ["raise SystemError('broken')", "create = None", "def create(options):\n    return 7\n"],
    ids=["import", "create", "answer"],
)
def test_a_broken_law_from_outside_changes_no_other_verdict(
    installed: Path, recorded: Path, tmp_path: Path, breakage: str
) -> None:
    copy = tmp_path / recorded.name
    shutil.copytree(recorded, copy)
    before = laws_of(copy)
    (law,) = installed.parents[1].rglob("mystorm/read_back.py")
    sound = law.read_text()
    try:
        law.write_text(breakage)
        done = stormproof(installed, tmp_path, "check", str(copy), "--engine", "local", "--json")
    finally:
        law.write_text(sound)
    after = laws_of(copy)
    assert json.loads(done.stdout)["verdict"] == "UNKNOWN"
    assert after["read-back"]["validity"] == "UNKNOWN" and "broken" in after["read-back"]["why"]
    assert {**after, "read-back": 0} == {**before, "read-back": 0}


NETNS = pytest.param("netns", marks=pytest.mark.netns)
FAULTS = ("kill", "pause", "hiccup")
#: The planted bug, the verdict, and the law that finds it.
SEEN = [("", "VALID", ""), ("lazy", "INVALID", "read-back"), ("garbled", "INVALID", "agreement")]


@pytest.fixture(scope="module")
def of_an_ordinary_user(wheel: Path, toy_wheel: Path) -> Iterator[Path]:
    """A folder of theirs, with an environment in which pip has installed the two wheels and nothing else is ours."""
    with folder_of_an_ordinary_user() as home:
        venv_of = [python_of_ordinary_user(), "-m", "venv", "--without-pip", home / "venv"]
        subprocess.run(venv_of, check=True, capture_output=True, timeout=120)
        python = home / "venv" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps"]
        subprocess.run([*pip, wheel, toy_wheel], check=True, capture_output=True, timeout=120)
        (site,) = home.glob("venv/lib/python*/site-packages")
        places = [path for path in sys.path if path.endswith("site-packages")]
        (site / "dependencies.pth").write_text("\n".join([*places, ""]))
        yield home


@pytest.mark.full
@pytest.mark.process
@pytest.mark.parametrize("deployment", ["process", NETNS])
def test_a_foreign_system_is_judged_by_an_ordinary_user_outside_of_the_checkout(
    of_an_ordinary_user: Path, deployment: str
) -> None:
    for mutant, verdict, law in SEEN:
        with tempfile.TemporaryDirectory(dir=of_an_ordinary_user) as name:
            folder = Path(name)
            shutil.chown(folder, *owner_of(of_an_ordinary_user))
            (folder / "tinyq.yaml").write_text(TINYQ + ANYWHERE + (PARTITION if deployment == "netns" else ""))
            words = ["run", "tinyq.yaml", "--on", deployment, "--engine", "local", "--json"]
            command = [of_an_ordinary_user / "venv" / "bin" / "stormproof", *words]
            environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder)}
            done = command_of_ordinary_user(folder, *command, *(("--bug", mutant) if mutant else ()), **environment)
            assert done.stdout, done.stderr
            told = json.loads(done.stdout)
            assert told["verdict"] == verdict, told
            (run,) = folder.glob("runs/*/")
            faults = (*FAULTS, "partition") if deployment == "netns" else FAULTS
            assert effective(run) == dict.fromkeys(faults, True)
            assert run.stat().st_uid == of_an_ordinary_user.stat().st_uid
            laws = laws_of(run)
            assert not law or laws[law]["validity"] == "INVALID"
            assert mutant or laws["read-back"]["validity"] == laws["agreement"]["validity"] == "VALID"


def owner_of(folder: Path) -> tuple[int, int]:
    found = folder.stat()
    return found.st_uid, found.st_gid
