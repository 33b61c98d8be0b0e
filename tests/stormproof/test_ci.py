"""The GitHub action and the GitLab template: what they call exists, and their steps do what they say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from ruamel.yaml import YAML

from chaos.machines.healing import state
from stormproof import cli
from tests.stormproof.small_runs import BUG, EXPERIMENT

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = YAML(typ="safe").load(ROOT / "action.yml")
TEMPLATE: dict[str, Any] = YAML(typ="safe").load(ROOT / "ci" / "gitlab.yml")[".stormproof"]
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
SCRIPTS_OF_ACTION: dict[str, str] = {step["name"]: step["run"] for step in STEPS if "run" in step}
SCRIPTS = {
    **SCRIPTS_OF_ACTION,
    **{name: "\n".join(TEMPLATE[name]) for name in ("before_script", "script", "after_script")},
}


def commands_in(script: str) -> list[list[str]]:
    """The words of each call of ``stormproof``."""
    lexer = shlex.shlex(script.replace("\n", " ; "), posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    calls: list[list[str]] = []
    inside = False
    for word in lexer:
        if set(word) <= set("();<>|&"):
            inside = False
        elif word == "stormproof":
            inside = True
            calls.append([])
        elif inside:
            calls[-1].append(word)
    return calls


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_the_steps_call_exists(name: str) -> None:
    checked = subprocess.run(["bash", "-n"], input=SCRIPTS[name], capture_output=True, text=True, timeout=30)
    assert checked.returncode == 0, checked.stderr
    for command, *words in commands_in(SCRIPTS[name]):
        found = cli.stormproof.get_command(click.Context(cli.stormproof), command)  # type: ignore[attr-defined]
        assert found is not None, command
        known = {option for parameter in found.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_calls_are_seen() -> None:
    told = commands_in('a; stormproof run "$X" --on sim && stormproof summary --out x | tee y\nstormproof list > z')
    assert told == [["run", "$X", "--on", "sim"], ["summary", "--out", "x"], ["list"]]
    assert {words[0] for script in SCRIPTS.values() for words in commands_in(script)} == {"install", "run", "report"}


def test_the_action_is_what_github_demands_of_a_composite_one() -> None:
    assert ACTION["name"] and ACTION["description"] and ACTION["runs"]["using"] == "composite"
    assert all(("run" in step and step["shell"] == "bash") != ("uses" in step) for step in STEPS)
    used = set(re.findall(r"inputs\.([\w-]+)", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    assert not [step["run"] for step in STEPS if "${{" in step.get("run", "")], (
        "inputs are data, never part of a script"
    )
    assert all(one["description"] and ("default" in one or one["required"]) for one in ACTION["inputs"].values())


def test_all_that_the_action_fetches_is_pinned() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used and all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", one) for one in used)
    installs = [line.split() for line in SCRIPTS["Install Stormproof"].splitlines() if "pip[@]" in line]
    assert [("--require-hashes" in words) != ("--no-deps" in words) for words in installs] == [True, True]


def test_the_page_tells_every_input_and_variable() -> None:
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    for name, told in ACTION["inputs"].items():
        assert re.search(rf"^\| `{name}` \| {re.escape(_quoted(told.get('default', '')))}", page, re.MULTILINE), name
    named = set(re.findall(r"STORMPROOF_[A-Z]+", page))
    ours = {name for name in TEMPLATE["variables"] if name.startswith("STORMPROOF_")}
    assert named == {*ours, state.VARIABLE}, "the latter is not the template's alone"


def _quoted(default: str) -> str:
    return f"`{default}` |" if default else "|"


@pytest.fixture(scope="module")
def machine_of_ci(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """What a server gives to a job: an environment of its own, here without a network, and a checkout of Stormproof."""
    home = tmp_path_factory.mktemp("ci")
    left_out = shutil.ignore_patterns(".*", "__pycache__", "tests", "benchmarks", "runs", "build", "*.egg-info")
    shutil.copytree(ROOT, home / "stormproof", ignore=left_out)
    shutil.copytree(ROOT / "tests" / "scenarios", home / "stormproof" / "tests" / "scenarios")  # the package has them
    venv.create(home / "venv", with_pip=False)
    python = home / "venv" / "bin" / "python"
    words = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout.strip())
    (site / "dependencies.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    offline = {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}  # 0: pip reads it as "no"
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**kept, **offline, "PATH": f"{python.parent}:{os.environ['PATH']}", "CHECKOUT": str(home / "stormproof"),
            "XDG_CACHE_HOME": str(home / "cache")}  # fmt: skip


def shell(script: str, folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def on_github(folder: Path, machine: Mapping[str, str], **inputs: str) -> tuple[dict[str, int], str]:
    """Run the action's own steps as GitHub would; returns their exit codes and the job's summary."""
    whole = {name: told.get("default", "") for name, told in ACTION["inputs"].items()} | inputs
    page = folder / "summary.md"
    codes: dict[str, int] = {}
    for step in (step for step in STEPS if "run" in step):
        if any(codes.values()) and step.get("if") != "always()":
            continue
        given = {name: whole[re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", value)[1]]  # type: ignore[index]
                 for name, value in step.get("env", {}).items()}  # fmt: skip
        here = {"GITHUB_ACTION_PATH": machine["CHECKOUT"], "GITHUB_STEP_SUMMARY": str(page)}
        done = shell(step["run"], folder, {**machine, **here, **given})
        codes[step["name"]] = done.returncode
        assert done.returncode in (0, 1), done.stderr
    return codes, page.read_text("utf-8")


@pytest.mark.full
def test_the_steps_of_the_action_run_and_sum_up(machine_of_ci: Mapping[str, str], tmp_path: Path) -> None:
    for folder in ("good", "bad"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "small.yaml").write_text(EXPERIMENT)
    of_driver = {"packages": "./stormproof-shop", "systems": "shop@1"}
    words = [sys.executable, "-m", "stormproof", "new", "driver", "shop"]
    subprocess.run(words, cwd=tmp_path / "good", env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    codes, page = on_github(tmp_path / "good", machine_of_ci, experiment="small.yaml", seeds="0..1", **of_driver)
    assert list(Path(machine_of_ci["XDG_CACHE_HOME"], "stormproof", "systems").glob("shop-1-*"))
    assert set(codes.values()) == {0} and page == "## Stormproof: 2 VALID\n"
    codes, page = on_github(tmp_path / "bad", machine_of_ci, experiment="small.yaml", arguments=f"--bug {BUG}")
    assert codes == {**dict.fromkeys(SCRIPTS_OF_ACTION, 0), "Run the experiment": 1}
    assert page.startswith("## Stormproof: 1 INVALID\n") and "Partition of broker-0 at 1.0 s" in page
    assert f"`stormproof run small.yaml --on sim --seed 0 --bug {BUG}`" in page


@pytest.mark.full
def test_the_scripts_of_the_template_run_and_keep_what_they_say(
    machine_of_ci: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    variables = {name: str(value) for name, value in TEMPLATE["variables"].items()}
    variables |= {"STORMPROOF_PACKAGE": machine_of_ci["CHECKOUT"], "STORMPROOF_EXPERIMENT": "small.yaml"}
    variables |= {"STORMPROOF_ARGUMENTS": f"--bug {BUG}", "PIP_CACHE_DIR": str(tmp_path / "cache")}
    environment = {**machine_of_ci, **variables}
    done = shell(f"{SCRIPTS['before_script']}\n{SCRIPTS['script']}", tmp_path, environment)
    assert done.returncode == 1, done.stderr
    after = shell(SCRIPTS["after_script"], tmp_path, environment)
    assert after.returncode == 0 and after.stdout.startswith("## Stormproof: 1 INVALID\n")
    assert (tmp_path / "runs" / "summary.md").read_text("utf-8") == after.stdout
    assert len(list(tmp_path.glob(TEMPLATE["artifacts"]["reports"]["junit"]))) == 1
