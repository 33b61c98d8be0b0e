"""The site has every page, and what pages link to, run and show is real."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from chaos.experiment.reader import load
from docs import site
from stormproof import shipped
from stormproof.cli import stormproof

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SHIPPED = shipped.experiments(ROOT)
#: Pages that the navigation has a place for before they are written.
LATER = {"ci.md", "runs.md"}
TABS = ["Start", "Use it", "Your system", "Understand", "Reference", "Internals"]
FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.DOTALL | re.MULTILINE)


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def without_code(text: str) -> str:
    return FENCE.sub("", text)


def anchors(text: str) -> set[str]:
    """Those of a page's headings that are the same on a forge and on the site, which joins spaces and dashes."""
    headings = re.findall(r"^#+ (.+)$", without_code(text), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading).lower() for heading in headings]
    kept = [re.sub(r"[^\w\s-]", "", heading).strip() for heading in plain]
    return {it.replace(" ", "-") for it in kept} & {re.sub(r"[-\s]+", "-", it) for it in kept}


@pytest.mark.parametrize("name", PAGES)
def test_links_to_headings_lead_there(name: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", without_code(text_of(name))):
        other = ((ROOT / name).parent / target) if target else ROOT / name
        assert anchor in anchors(other.read_text("utf-8")), f"{name} points to {target}#{anchor}"


def test_a_heading_with_another_anchor_on_the_site_is_not_linked() -> None:
    assert anchors("# A row\n## Traces (`kind = trace`)\n```\n# no heading\n```\n") == {"a-row"}


@pytest.mark.parametrize("name", site.FOLDED)
def test_long_pages_fold_what_one_looks_up_and_no_heading(name: str) -> None:
    text = text_of(f"docs/{name}")
    made = site.page(name, site.HOME, text)
    plain = re.sub(r"</?(?:details|summary)[^>]*>", "", made)
    opened = re.findall(r"<details[^>]*>.*?</details>", made, re.DOTALL)
    assert len(opened) > 10 and anchors(made) == anchors(text)
    assert not [one for one in opened if re.search(r"^##", without_code(one), re.MULTILINE)]
    lost = set(without_code(text).split()) - set(without_code(plain).split())
    assert not [word for word in lost if not word.startswith("[") and "](" not in word]


def code(text: str) -> list[str]:
    """The lines of code that are not Python and the like, the code in lines of prose, and what is indented."""
    lines = [
        line for kind, _, body in FENCE.findall(text) if kind in ("", "sh", "console") for line in body.splitlines()
    ]
    rest = without_code(text)
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", rest)]
    return [*lines, *spans, *re.findall(r"^    (.+)$", rest, re.MULTILINE)]


def wrong_commands(text: str) -> list[str]:
    """The commands of ours in a page that do not exist, or have an option that does not."""
    wrong = []
    for line in code(text):
        for name, rest in re.findall(r"(?<![\w./-])stormproof ([a-z]+)\b(?![./:])([^#|;]*)", line):
            command = stormproof.get_command(click.Context(stormproof), name)
            known = {option for one in command.params for option in one.opts} if command else set()
            if command is None or not set(re.findall(r"(?<=\s)--[a-z-]+", rest)) <= known | {"--help"}:
                wrong.append(f"stormproof {name}{rest}")
    return wrong


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_pages_exist(name: str) -> None:
    assert wrong_commands(text_of(name)) == []


def test_a_command_that_does_not_exist_is_seen() -> None:
    assert wrong_commands("Say `stormproof walk it.yaml`.") == ["stormproof walk it.yaml"]
    assert wrong_commands("```sh\nstormproof run it.yaml --on sim --fast  # quickly\n```") == [
        "stormproof run it.yaml --on sim --fast  "
    ]
    assert wrong_commands("    stormproof run it.yaml --on sim\n\nOur `stormproof.run` is something else.") == []


@pytest.mark.parametrize("name", PAGES)
def test_the_files_that_commands_of_pages_name_exist(name: str) -> None:
    """A file of the checkout, or the name of an experiment; files that readers write stand in no folder."""
    pattern = r"stormproof (?:run|sweep|up|matrix) ([a-z_/]+(?:\.yaml)?)(?=\s|$)"
    asked = [one for line in code(text_of(name)) for one in re.findall(pattern, line)]
    ours = {one for one in asked if not one.endswith(".yaml") or ("/" in one and (ROOT / one).parent.is_dir())}
    assert [one for one in ours if one not in SHIPPED and not (ROOT / one).is_file()] == []


def experiments() -> list[tuple[str, str]]:
    """Whole experiments in pages, but for those that a page shows being refused."""
    pages = ((name, text_of(name)) for name in PAGES)
    blocks = ((name, text, found) for name, text in pages for found in FENCE.findall(text))
    return [
        (name, body)
        for name, text, (kind, title, body) in blocks
        if kind == "yaml" and re.search(r"^system:", body, re.MULTILINE) and f"error: {title or '-'}:" not in text
    ]


@pytest.mark.parametrize(("name", "body"), experiments())
def test_the_experiments_of_pages_can_be_run(name: str, body: str, tmp_path: Path) -> None:
    """``mybroker`` is a driver that the reader of a page is about to write."""
    (tmp_path / "it.yaml").write_text(body.replace("mybroker:", "reference:"), "utf-8")
    assert load(tmp_path / "it.yaml", deployment="sim").workloads, name


def test_every_page_is_in_the_navigation() -> None:
    named = site.NAMED.findall(site.CONFIG.read_text("utf-8"))
    written = {name for name, _ in site.sources() if name.endswith(".md")}
    assert len(named) == len(set(named))
    assert written <= set(named), "docs/zensical.toml has no line for these"
    assert set(named) - written <= LATER


def test_the_configuration_leaves_out_pages_that_are_not_written() -> None:
    made = tomllib.loads(site.config())["project"]
    assert [next(iter(part)) for part in made["nav"]] == TABS
    assert set(site.NAMED.findall(site.config())) == {name for name, _ in site.sources() if name.endswith(".md")}


def test_links_out_of_the_docs_become_text_or_pages_of_the_site() -> None:
    links = "[a](../CONTRIBUTING.md#rules) [b](../chaos/api.py) [c](laws.md) ![d](driver.svg) [e](https://it.example)"
    text = f"{links}\n```\n[f](../chaos)\n```\n* g\n  * h\n"
    made = "[a](CONTRIBUTING.md#rules) b [c](laws.md) ![d](driver.svg) [e](https://it.example)"
    assert site.page("api.md", site.HOME, text) == f"{made}\n```\n[f](../chaos)\n```\n* g\n    * h\n"
    assert site.page("design/nodes.md", site.HOME / "design", "[a](../wire.md)") == "[a](../wire.md)"


def test_a_picture_with_a_dark_form_is_shown_in_both() -> None:
    both = "![a](../report.png#only-light)![a](../report.dark.png#only-dark)"
    assert site.page("plugins/a.md", site.HOME / "plugins", "![a](../report.png)") == both
    assert site.page("a.md", site.HOME, "![a](driver.svg)") == "![a](driver.svg)"


@pytest.mark.parametrize("drawing", sorted(ROOT.glob("docs/*.svg")), ids=lambda path: path.name)
def test_drawings_have_a_name_and_are_shown_by_a_page(drawing: Path) -> None:
    root = ElementTree.parse(drawing).getroot()
    title = root.findtext("{http://www.w3.org/2000/svg}title")
    assert root.get("role") == "img" and (title or root.get("aria-label"))
    is_logo = f'"{drawing.name}"' in site.config()
    assert is_logo or any(f"({drawing.name})" in text_of(name) for name in PAGES)
