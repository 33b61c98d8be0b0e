"""What a release brings with its wheel: the bill of materials agrees with the lock, the manual with the commands."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from chaos.errors import BadInput
from chaos.version import VERSION
from stormproof.cli import stormproof
from stormproof.outcome import MEANINGS, ExitCode
from stormproof.release import licences, manual
from stormproof.release.lock import extra_needs, read_lock, runtime_needs
from stormproof.release.sbom import join

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
ENTRIES = read_lock(LOCK)


def listed() -> dict[str, Any]:
    """The lock as ``cyclonedx-py requirements`` writes it: a description is the entry."""
    return {
        "bomFormat": "CycloneDX",
        "metadata": {"component": {"type": "application", "name": "stormproof", "bom-ref": "root-component"}},
        "components": [
            {
                "bom-ref": f"requirements-L{number}",
                "name": it.name,
                "version": it.version,
                "purl": it.purl,
                "description": f"requirements line {number}: {it.name}=={it.version} --hash=…",
                "externalReferences": [
                    {
                        "type": "distribution",
                        "hashes": [{"alg": "SHA-256", "content": digits} for _, digits in it.hashes],
                    }
                ],
            }
            for number, it in enumerate(ENTRIES)
        ],
    }


#: An environment as ``cyclonedx-py environment`` writes it.
INSTALLED = {
    "components": [
        {"name": "click", "version": it.version, "description": "d", "licenses": [{"license": {"id": "BSD-3-Clause"}}]}
        for it in ENTRIES
        if it.name == "click"
    ]
    + [{"name": "Jinja2", "version": "1.0", "licenses": [{"license": {"id": "of another version"}}]}]
}


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return join(listed(), INSTALLED, ENTRIES, PROJECT)


def test_the_lock_is_read_whole() -> None:
    pinned = re.findall(r"^([\w.-]+==[^ ;\\]+)", LOCK, re.MULTILINE)
    assert [f"{it.name}=={it.version}" for it in ENTRIES] == pinned and len(pinned) > 40
    assert [it for one in ENTRIES for _, it in one.hashes] == re.findall(r"--hash=sha256:([0-9a-f]{64})", LOCK)


def test_the_bill_names_every_package_of_the_lock_with_all_its_hashes(made: dict[str, Any]) -> None:
    components = made["components"]
    assert sorted((it["name"], it["version"]) for it in components) == sorted((it.name, it.version) for it in ENTRIES)
    hashes = [one["content"] for it in components for one in it["externalReferences"][0]["hashes"]]
    assert sorted(hashes) == sorted(digits for it in ENTRIES for _, digits in it.hashes)
    product = made["metadata"]["component"]
    assert (product["version"], product["purl"]) == (VERSION, f"pkg:pypi/stormproof@{VERSION}")
    markers = {it["name"]: it["properties"][0]["value"] for it in components if "properties" in it}
    assert markers["colorama"] == "sys_platform == 'win32'"


def test_the_bill_separates_what_is_installed_from_what_is_for_development(made: dict[str, Any]) -> None:
    scopes = {it["name"]: it["scope"] for it in made["components"]}
    assert {scopes[name] for name in ("click", "pyspark", "numpy", "urllib3", "pydantic-core")} == {"required"}
    assert {scopes[name] for name in ("mypy", "ruff", "pytest-xdist", "execnet", "click-man")} == {"excluded"}
    assert {scopes[name] for name in ("kio", "crc32c")} == {"optional"}
    assert {extra_needs(ENTRIES, PROJECT)[name] for name in ("kio", "crc32c")} == {"kafka"}
    assert not {"mypy", "numpy", "typing-extensions"} & set(extra_needs(ENTRIES, PROJECT))


def test_the_bill_says_who_needs_whom_and_under_which_licence(made: dict[str, Any]) -> None:
    refs = [it["bom-ref"] for it in made["components"]]
    ours, *others = made["dependencies"]
    assert [it["ref"] for it in others] == refs and len(set(refs)) == len(refs)
    assert {need for it in made["dependencies"] for need in it["dependsOn"]} <= set(refs)
    by_name = {it["ref"].split("@")[0].removeprefix("pkg:pypi/"): it["dependsOn"] for it in others}
    assert any(need.startswith("pkg:pypi/markupsafe@") for need in by_name["jinja2"])
    assert any(need.startswith("pkg:pypi/click@") for need in ours["dependsOn"])
    known = {it["name"]: (it.get("description"), it["licenses"]) for it in made["components"] if "licenses" in it}
    assert known == {"click": ("d", [{"license": {"id": "BSD-3-Clause"}}])}


@pytest.mark.full
def test_the_bill_of_a_release_fits_its_schema_and_is_the_same_again() -> None:
    """``make dist`` makes it in an environment of its own, and fails if it does not fit."""
    done = subprocess.run(["make", "-s", ".cache/release-env/ready"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 2 and "needs a network" in done.stderr:
        pytest.skip("cyclonedx-bom is not installed, and there is no network to get it")
    assert done.returncode == 0, done.stderr
    words = [".cache/release-env/bin/python", "-m", "stormproof.release.sbom"]
    words += ["requirements.lock", "pyproject.toml", ".venv/bin/python"]
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    first, second = (subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=True) for _ in "12")
    assert first.stdout == second.stdout
    bill = json.loads(first.stdout)
    assert bill["metadata"]["timestamp"].startswith("2023-11-14T22:13:20")
    assert sum("licenses" in it for it in bill["components"]) > 0.8 * len(ENTRIES)
    assert licences.page(bill) == (ROOT / "docs" / "licences.md").read_text("utf-8")


def test_a_lock_that_cannot_be_read_gives_no_bill() -> None:
    with pytest.raises(BadInput, match="line 1 of the lock"):
        read_lock("click @ https://it.example/click.whl\n")


def test_what_the_tool_read_must_be_what_is_in_the_lock() -> None:
    for change in ("version", "name"):
        other = listed()
        other["components"][3][change] += "1"
        with pytest.raises(BadInput, match="other packages or hashes"):
            join(other, INSTALLED, ENTRIES, PROJECT)
    other = listed()
    del other["components"][3]["externalReferences"][0]["hashes"][0]
    with pytest.raises(BadInput, match="other packages or hashes"):
        join(other, INSTALLED, ENTRIES, PROJECT)


def test_the_page_of_licences_is_that_of_the_lock(made: dict[str, Any]) -> None:
    written = re.findall(
        r"^\| (\S+) \| (.+) \| (use|development|extra `[\w-]+`) \|$",
        (ROOT / "docs/licences.md").read_text("utf-8"),
        re.M,
    )
    purposes = {name: f"extra `{extra}`" for name, extra in extra_needs(ENTRIES, PROJECT).items()}
    purposes |= dict.fromkeys(runtime_needs(ENTRIES, PROJECT), "use")
    wanted = dict.fromkeys((it.name, purposes.get(it.name, "development")) for it in ENTRIES)
    assert [(name, purpose) for name, _, purpose in written] == list(wanted), (
        f"{licences.__name__} says how to write it"
    )
    said = {name: licence for name, licence, _ in written}
    assert said["click"] == licences.licence("click", [it for it in made["components"] if it["name"] == "click"])
    with pytest.raises(LookupError, match="names no licence"):
        licences.page(made)


def test_a_licence_is_spdx_s_name_or_the_package_s_own_words() -> None:
    own = {"license": {"name": "License :: OSI Approved :: BSD License"}}
    assert licences.licence("a", [{"licenses": [own]}]) == "BSD License"
    assert licences.licence("a", [{"licenses": [{"license": {"id": "MIT"}}, own]}]) == "MIT"
    assert licences.licence("a", [{}, {"licenses": [{"expression": "MIT OR 0BSD"}]}]) == "MIT OR 0BSD"
    assert licences.licence("colorama", [{}]) == "BSD License"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("manual") / "man"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        manual.write(folder)
    return {path.name: path.read_text("utf-8") for path in sorted(folder.iterdir())}


def test_the_manual_has_every_command_with_all_its_options(pages: dict[str, str]) -> None:
    context = click.Context(stormproof, info_name="stormproof")
    commands = {name: stormproof.get_command(context, name) for name in stormproof.list_commands(context)}
    names = [name for name, command in commands.items() if command is not None and not command.hidden]
    assert set(pages) == {"stormproof.1", *(f"stormproof-{name}.1" for name in names)}
    for name in names:
        command, page = commands[name], pages[f"stormproof-{name}.1"]
        assert command is not None and command.short_help is None, "the manual changes nothing of the commands"
        assert page.startswith(f'.TH "STORMPROOF {name.upper()}" "1" "2023-11-14" "{VERSION}"')
        assert " ".join((command.help or "").split("\n\n")[0].split()) in " ".join(page.split())
        options = [one for it in command.params if isinstance(it, click.Option) and not it.hidden for one in it.opts]
        assert [one for one in options if one.replace("-", "\\-") not in page] == []
        assert f"\\fB{name}\\fP\n  {manual.first_sentence(command)}\n" in pages["stormproof.1"]
    assert set(MEANINGS) == {code for name, code in vars(ExitCode).items() if name.isupper()}
    assert all(meaning in pages["stormproof.1"] for meaning in MEANINGS.values())


def test_the_manual_has_no_line_that_is_a_command_by_accident(pages: dict[str, str]) -> None:
    lines = [line for page in pages.values() for line in page.splitlines()]
    assert {line.split(" ")[0] for line in lines if line.startswith((".", "'"))} <= {".TH", ".SH", ".TP", ".PP", ".B"}
    assert not [line for line in lines if re.search(r"\\(?!fB|fP|-)|[\b]", line)]
