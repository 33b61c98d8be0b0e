"""What the documents quote is what stands in the tree."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

from chaos.experiment.reader import load
from chaos.judging.registry import registry
from chaos.law import Promise
from chaos.workload import Use
from reference.mutants import MUTANTS
from reference.split.mutants import MUTANTS as SPLIT_MUTANTS
from stormproof.shrinking.minimal import TEST
from tests.checkers.names import ANOMALIES, LAWS

ROOT = Path(__file__).parent.parent
OUTSIDE = "tests/stormproof/outside"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_contributing_quotes_the_real_fault() -> None:
    assert page("nemesis/pause.py").strip() in page("CONTRIBUTING.md")


def test_the_figures_of_the_readme_are_those_of_the_tree() -> None:
    text, findings = page("README.md"), page("docs/rocketmq.md").partition("\n## Findings\n")[2]
    assert f"{len(MUTANTS)} planted bugs" in text
    assert "[ten findings](docs/rocketmq.md#findings)" in text
    assert len(re.findall(r"^\| \[", findings, re.MULTILINE)) == 10
    assert "| 3 of 3 |" in next(line for line in findings.splitlines() if "lost at a switch" in line)
    assert len(text.splitlines()) <= 90


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("index.md", f"{OUTSIDE}/pyproject.toml"),
        ("driver.md", "stormproof/driver_package/stormproof_tinyq/driver.py"),
        ("driver.md", f"{OUTSIDE}/mystorm/tinyq_client.py"),
        ("fault.md", f"{OUTSIDE}/mystorm/hiccup.py"),
        ("workload.md", f"{OUTSIDE}/mystorm/trickle.py"),
        ("law.md", f"{OUTSIDE}/mystorm/read_back.py"),
    ],
)
def test_the_pages_on_plug_ins_quote_the_packages_that_tests_run(name: str, quoted: str) -> None:
    assert page(quoted).strip() in page(f"docs/plugins/{name}")


def test_the_page_on_drivers_quotes_how_a_client_program_is_started() -> None:
    _, _, command = page(f"{OUTSIDE}/mystorm/tinyq.py").partition("    async def client_command")
    assert command.partition("\n\n")[0] in page("docs/plugins/driver.md")


@pytest.mark.parametrize("promise", registry().promises, ids=lambda promise: promise.name)
def test_the_page_of_a_promise_defines_all_that_it_can_find(promise: Promise) -> None:
    """A page that is made from the class alone defines nothing more."""
    _, _, judged = page(f"docs/promises/{promise.name}.md").partition("\n## ")
    assert not judged or [kind.name for kind in promise.anomalies if f"`{kind.name}`" not in judged] == []


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page(name)):
        assert ((ROOT / name).parent / target).exists(), f"{name} points to {target}"


def examples_in(name: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(examples_in("docs/experiments.md"))))
def test_the_experiments_of_the_page_can_be_run(number: int, tmp_path: Path) -> None:
    """The first one is whole; the others are faults to put in their place, or come behind it."""
    whole, *others = examples_in("docs/experiments.md")
    more = others[number - 1] if number else ""
    text = whole[: whole.index("faults:")] + more if "faults:" in more else whole + more
    (tmp_path / "it.yaml").write_text(text)
    assert load(tmp_path / "it.yaml", deployment="process").faults_on("process", 1)


#: A paragraph that speaks of mutants may name these besides: what finds them, and what workloads use.
NO_MUTANTS = {*LAWS, *ANOMALIES, *map(str, Use)}
#: Folders whose files documents name.
FOLDERS = "benchmarks|chaos|checkers|docs|drivers|examples|images|nemesis|reference|reports|stormproof|tests|workloads"


def promised_mutants(text: str) -> list[str]:
    """The names of mutants in a document: after ``--bug``, unless it shows that one being refused, and kebab-case
    names of code in each paragraph that speaks of mutants or planted bugs."""
    refused = re.findall(r"unknown planted bug '([a-z0-9-]+)'", text)
    named = [name for name in re.findall(r"--bug ([a-z0-9-]+)", text) if name not in refused]
    for paragraph in re.split(r"\n\s*\n", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)):
        if re.search(r"\bmutants?\b|\bplanted bugs?\b", paragraph, re.IGNORECASE):
            named += re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", paragraph)
    return named


def promised_tests(text: str) -> list[str]:
    """Names of test functions and files, but for those that the document itself defines, as an example, or has its
    reader write, and for the file that shrinking writes."""
    own = [name for path in written_by_reader(text) for name in re.findall(r"test_\w+", path)]
    named = [name for name in re.findall(r"\b(test_\w+)", text) if f"def {name}(" not in text and f"{name}.py" != TEST]
    return [name for name in named if name not in own and name != "test_NAME"]


def written_by_reader(text: str) -> list[str]:
    """Files that a document has its reader write, with an editor or by a capital NAME."""
    return [path for line in re.findall(r"\$EDITOR ([^#\n]*)", text) for path in line.split()]


def promised_files(text: str) -> list[str]:
    """Paths of ours in code or commands, without wildcards, names to be filled in and what the reader writes."""
    own = written_by_reader(text)
    found = re.findall(rf"(?<![\w./-])((?:{FOLDERS})/[\w./-]*[\w/])(?![\w*<{{]|\.\*)", text)
    return [path for path in found if path not in own and "NAME" not in path]


@pytest.mark.parametrize("name", PAGES)
def test_the_mutants_that_documents_name_exist(name: str) -> None:
    known = {planted.name for planted in (*MUTANTS, *SPLIT_MUTANTS)} | NO_MUTANTS
    assert sorted(set(promised_mutants(page(name))) - known) == []


@cache
def known_tests() -> frozenset[str]:
    paths = sorted(ROOT.glob("tests/**/*.py"))
    functions = (re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE) for path in paths)
    return frozenset(path.stem for path in paths).union(*functions)


@pytest.mark.parametrize("name", PAGES)
def test_the_tests_that_documents_name_exist(name: str) -> None:
    assert sorted(set(promised_tests(page(name))) - known_tests()) == []


@pytest.mark.parametrize("name", PAGES)
def test_the_files_that_documents_name_exist(name: str) -> None:
    assert [path for path in promised_files(page(name)) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_the_targets_and_benchmarks_that_documents_name_exist(name: str) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"(?:`|^ {4}|\$ )make ([a-z-]+)", page(name), re.MULTILINE)) <= set(targets)
    benchmarks = re.findall(r"python -m (benchmarks\.\w+)", page(name))
    assert [one for one in benchmarks if importlib.util.find_spec(one) is None] == []


def test_a_promise_of_what_does_not_exist_is_seen() -> None:
    text = "The mutant `no-such-bug` is found by `tests/test_nothing.py`, see `test_nothing_at_all` and `test_docs.py`."
    assert promised_mutants(text) == ["no-such-bug"]
    assert promised_tests(text) == ["test_nothing", "test_nothing_at_all", "test_docs"]
    assert promised_files(text) == ["tests/test_nothing.py"]
    assert promised_mutants("```\nstormproof run it.yaml --bug gone\n```") == ["gone"]
    assert promised_mutants("A fault has kebab-case aliases: `hammer-time`.") == []


def _titles(name: str) -> list[str]:
    return re.findall(r'"([A-Z][^"{]+)', page(name))


def test_the_page_on_reports_names_the_lanes_that_reports_have() -> None:
    drawn = [title for name in ("figure", "curves") for title in _titles(f"reports/run_report/{name}.py")]
    table = page("docs/runs.md").partition("| lane |")[2].partition("\n\n")[0]
    named = [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()[2:]]
    assert len(named) > 5
    assert [lane for lane in named if not any(title.startswith(lane) for title in drawn)] == []
