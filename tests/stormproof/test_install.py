"""``stormproof install``: a recipe is followed once, wholly or not at all, and a failure says what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from chaos import plugins
from chaos.errors import BadInput
from chaos.plugins import PluginKind
from chaos.recipe import RECIPES, Recipe, Step
from stormproof import cli

COPY = "import shutil; shutil.copy('source.txt', 'program')"


def step(code: str, **more: float) -> Step:
    return Step(command=(sys.executable, "-c", code), does="making it", mend="look after it", **more)


RECIPE = Recipe(
    system="foreign",
    version="1.2.3",
    tools={sys.executable: "install Python"},
    files={"source.txt": "it runs"},
    steps=(step(COPY),),
    makes=("program",),
)


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Have a driver ``foreign`` that offers these recipes; installations go to a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names, load = plugins.names, plugins.load

    def offered(*recipes: Recipe) -> None:
        module = ModuleType("foreign")
        setattr(module, RECIPES, recipes)
        monkeypatch.setattr(
            plugins, "names", lambda kind: (*names(kind), "foreign") if kind is PluginKind.DRIVER else names(kind)
        )
        monkeypatch.setattr(plugins, "load", lambda kind, name: module if name == "foreign" else load(kind, name))

    return offered


def call(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    code = cli._run(["install", *words])
    out, err = capfd.readouterr()
    return code, out.splitlines(), err


@pytest.mark.parametrize("wanted", ["foreign", "foreign@1", "foreign@1.2", "foreign@1.2.3"])
def test_a_recipe_is_followed_once(wanted: str, offer, capfd: pytest.CaptureFixture[str]) -> None:
    offer(RECIPE, replace(RECIPE, version="1.1.9"))
    with pytest.raises(BadInput, match=r"foreign 1\.2\.3 is not installed here: `stormproof install foreign@1"):
        RECIPE.program("program")
    code, out, err = call(capfd, wanted)
    assert (code, out) == (0, [str(RECIPE.folder)]) and err == "foreign 1.2.3: making it\n"
    assert RECIPE.program("program").read_text() == "it runs"
    assert call(capfd, wanted) == (0, out, "foreign 1.2.3 is there already\n")
    assert [path.name for path in RECIPE.folder.parent.iterdir()] == [RECIPE.folder.name]


def test_without_a_name_it_lists_what_there_is(offer, capfd: pytest.CaptureFixture[str]) -> None:
    offer(RECIPE)
    assert "foreign@1.2.3  not installed" in call(capfd)[1]
    call(capfd, "foreign")
    assert f"foreign@1.2.3  {RECIPE.folder}" in call(capfd)[1]


@pytest.mark.parametrize(
    "wanted, expected",
    [
        ("foreign@1.3", "unknown version '1.3' of foreign; known: 1.2.3"),
        ("foreign@", "unknown version '' of foreign; known: 1.2.3"),
        ("foreign@../..", "unknown version '../..' of foreign; known: 1.2.3"),
        ("reference", "driver 'reference' has nothing to install; drivers that have: "),
        ("foriegn", "unknown driver 'foriegn'; "),
    ],
)
def test_what_nobody_offers_is_refused_in_one_sentence(
    wanted: str, expected: str, offer, capfd: pytest.CaptureFixture[str]
) -> None:
    offer(RECIPE)
    code, out, err = call(capfd, wanted)
    assert (code, out) == (3, []) and err.startswith(f"error: {expected}") and err.count("\n") == 1


@pytest.mark.parametrize(
    "change, expected",
    [
        (
            {"tools": {"no-such-tool": "install it"}},
            "foreign 1.2.3 is built with `no-such-tool`, which is not on the PATH: install it",
        ),
        (
            {"steps": (step(COPY), step("raise SystemExit('first\\nno network')"))},
            "failed (no network): look after it",
        ),
        (
            {"steps": (step("raise SystemExit('\\x1b[1m[ERROR] no such jar\\n[ERROR] read on\\n\\x1b[0m')"),)},
            "failed ([ERROR] no such jar): look after it",
        ),
        ({"steps": (step("import time; time.sleep(60)", limit_s=0.2),)}, "did not end within 0.2 s: look after it"),
        ({"steps": (step("pass"),)}, "the recipe has ended well, but did not make program"),
    ],
)
def test_what_fails_leaves_nothing_and_says_what_to_do(
    change: dict[str, Sequence[Step]], expected: str, offer, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = replace(RECIPE, **change)  # type: ignore[arg-type]
    offer(recipe)
    code, out, err = call(capfd, "foreign")
    last = err.splitlines()[-1]
    assert (code, out) == (3, []) and last.startswith("error: ") and last.endswith(expected)
    assert not recipe.installed and not (recipe.folder.parent.exists() and any(recipe.folder.parent.iterdir()))


def test_what_is_there_already_is_copied_instead(offer, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    recipe = replace(RECIPE, makes=("lib/program", "licence"), tools={"no-such-tool": "install it"})
    offer(recipe)
    source = tmp_path / "source"
    code, _, err = call(capfd, "foreign@1.2.3", "--from", str(source))
    assert (code, err) == (3, f"error: {source} does not hold foreign 1.2.3: it lacks lib/program, licence\n")
    (source / "lib").mkdir(parents=True)
    for name in ("lib/program", "lib/another", "licence", "elsewhere"):
        (source / name).write_text(name)
    assert call(capfd, "foreign@1.2.3", "--from", str(source))[0] == 0
    held = sorted(str(path.relative_to(recipe.folder)) for path in recipe.folder.rglob("*") if path.is_file())
    assert held == ["lib/another", "lib/program", "licence"]
    assert call(capfd, "--from", str(source))[0] == 3


def test_half_an_installation_is_made_anew(offer, capfd: pytest.CaptureFixture[str]) -> None:
    offer(RECIPE)
    RECIPE.folder.mkdir(parents=True)
    (RECIPE.folder / "left").touch()
    assert call(capfd, "foreign")[0] == 0
    assert RECIPE.program("program").is_file() and not (RECIPE.folder / "left").exists()


def test_another_recipe_for_the_same_version_has_a_place_of_its_own() -> None:
    assert replace(RECIPE, env={"A": "1"}).folder != RECIPE.folder


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (
            "module v1.2.2 v1.2.4-rc1 v1.2.4 v1.3.0 v2.0.0 v1.1.9 nonsense v1",
            "foreign 1.2.3: there is no such version; what there is, nearest first: "
            "1.2.4, 1.2.2, 1.2.4-rc1, 1.3.0, 1.1.9, 2.0.0",
        ),
        (
            "v0.9.0 v0.9.2 v0.10.1 v0.10.2 v2.1.0 v2.0.1 v2.0.0",
            "foreign 1.2.3: there is no such version; what there is, nearest first: "
            "2.0.0, 2.0.1, 2.1.0, 0.10.2, 0.10.1, 0.9.2, 0.9.0",
        ),
        ("v1.2.2 v1.2.3", "foreign 1.2.3: `"),  # it is there, so that something else went wrong
        ("", "foreign 1.2.3: `"),
    ],
)
def test_of_a_version_that_the_registry_lacks_it_says_what_there_is(
    listed: str, expected: str, offer, capfd: pytest.CaptureFixture[str]
) -> None:
    lists = (sys.executable, "-c", f"print({listed!r})")
    failing = replace(step("raise SystemExit('404')"), lists=lists)
    offer(replace(RECIPE, steps=(failing,)))
    code, _, err = call(capfd, "foreign")
    assert code == (3 if "there is no" in expected else code) != 0
    assert f"error: {expected}" in err, err


def test_where_nothing_lists_versions_the_failure_alone_is_shown(offer, capfd: pytest.CaptureFixture[str]) -> None:
    offer(replace(RECIPE, steps=(replace(step("raise SystemExit('404')"), lists=("no-such-tool",)),)))
    assert "failed (404): look after it" in call(capfd, "foreign")[2]
