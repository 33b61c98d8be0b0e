"""What a release brings beside its wheel: the bill of materials agrees with the lock, the manual with the commands."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from chaos.errors import BadInput
from chaos.version import VERSION
from stormproof.cli import stormproof
from stormproof.outcome import ExitCode
from stormproof.release import licences
from stormproof.release.manual import EXITS, page, roff
from stormproof.release.sbom import bill, compare, locked

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return bill(locked(LOCK), PROJECT)


def test_the_bill_names_every_package_of_the_lock_with_all_its_hashes(made: dict[str, Any]) -> None:
    components = made["components"]
    pinned = re.findall(r"^([\w.-]+==[^ ;\\]+)", LOCK, re.MULTILINE)
    assert [f"{it['name']}=={it['version']}" for it in components] == pinned and len(pinned) > 40
    told = [one["content"] for it in components for one in it["externalReferences"][0]["hashes"]]
    assert told == re.findall(r"--hash=sha256:([0-9a-f]{64})", LOCK)
    assert made["metadata"]["component"]["version"] == VERSION
    markers = {it["name"]: it["properties"][0]["value"] for it in components if "properties" in it}
    assert markers["colorama"] == "sys_platform == 'win32'"


def test_the_bill_tells_what_is_installed_from_what_is_for_development(made: dict[str, Any]) -> None:
    scopes = {it["name"]: it["scope"] for it in made["components"]}
    assert {scopes[name] for name in ("click", "pyspark", "numpy", "urllib3", "pydantic-core")} == {"required"}
    assert {scopes[name] for name in ("mypy", "ruff", "pytest-xdist", "execnet")} == {"excluded"}


def test_the_bill_says_who_needs_whom_and_under_which_licence(made: dict[str, Any]) -> None:
    refs = [it["bom-ref"] for it in made["components"]]
    ours, *others = made["dependencies"]
    assert [it["ref"] for it in others] == refs and len(set(refs)) == len(refs)
    assert {need for it in made["dependencies"] for need in it["dependsOn"]} <= set(refs)
    by_name = {it["ref"].split("@")[0].removeprefix("pkg:pypi/"): it["dependsOn"] for it in others}
    assert any(need.startswith("pkg:pypi/markupsafe@") for need in by_name["jinja2"])
    assert any(need.startswith("pkg:pypi/click@") for need in ours["dependsOn"])
    licences = {it["name"]: it["licenses"] for it in made["components"] if "licenses" in it}
    assert licences["click"] == [{"expression": "BSD-3-Clause"}]
    assert len(licences) > 0.8 * len(refs)


def test_a_lock_that_cannot_be_read_gives_no_bill() -> None:
    with pytest.raises(BadInput, match="line 1 of the lock"):
        locked("click @ https://it.example/click.whl\n")


def test_a_bill_of_another_lock_is_refused(made: dict[str, Any]) -> None:
    compare(made, locked(LOCK))
    for change in ("version", "name"):
        other = json.loads(json.dumps(made))
        other["components"][3][change] += "1"
        with pytest.raises(BadInput, match="not that of the lock"):
            compare(other, locked(LOCK))
    other = json.loads(json.dumps(made))
    del other["components"][3]["externalReferences"][0]["hashes"][0]
    with pytest.raises(BadInput, match="the bill lacks"):
        compare(other, locked(LOCK))


def test_the_page_of_licences_is_that_of_the_lock() -> None:
    written = (ROOT / "docs" / "licences.md").read_text("utf-8")
    assert written == licences.page(LOCK, PROJECT), "python -m stormproof.release.licences says how to write it anew"
    with pytest.raises(LookupError, match="names no licence"):
        licences.licence("no-such-package")


def test_the_manual_has_every_command_with_all_its_options() -> None:
    text, context = page(), click.Context(stormproof, info_name="stormproof")
    parts = re.split(r"^\.SS (\S+)$", text.partition(".SH EXIT STATUS")[0], flags=re.MULTILINE)[1:]
    assert parts[::2] == stormproof.list_commands(context)
    for name, part in zip(parts[::2], parts[1::2], strict=True):
        command = stormproof.get_command(context, name)
        assert command is not None and roff(" ".join((command.help or "").split("\n\n")[0].split())) in part
        options = [one for it in command.params if isinstance(it, click.Option) and not it.hidden for one in it.opts]
        assert [one for one in options if roff(one) not in part] == []
    assert set(EXITS) == {code for name, code in vars(ExitCode).items() if name.isupper()}


def test_the_manual_has_no_line_that_is_a_command_by_accident() -> None:
    macros = {line.split(" ")[0] for line in page().splitlines() if line.startswith((".", "'"))}
    assert macros <= {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".BR", ".nf", ".fi"}
    assert roff(".hidden -x \\") == "\\&.hidden \\-x \\e"
