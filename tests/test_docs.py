"""What the documents quote is what stands in the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.experiment.reader import load
from tests.checkers.names import ANOMALIES, LAWS

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def page(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def test_contributing_quotes_the_real_fault() -> None:
    assert page("nemesis/pause.py").strip() in page("CONTRIBUTING.md")


def test_readme_quotes_the_real_quickstart() -> None:
    quickstart = page("examples/quickstart.yaml")
    assert quickstart[quickstart.index("name:") :].strip() in page("README.md")


@pytest.mark.parametrize("law", LAWS)
def test_every_law_is_defined(law: str) -> None:
    assert law in page("docs/laws.md")


@pytest.mark.parametrize("anomaly", ANOMALIES)
def test_every_anomaly_is_defined(anomaly: str) -> None:
    assert f"`{anomaly}`" in page("docs/laws.md")


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page(name)):
        assert ((ROOT / name).parent / target).exists(), f"{name} points to {target}"


def examples_in(name: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", page(name), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(examples_in("docs/experiments.md"))))
def test_the_experiments_of_the_page_can_be_run(number: int, tmp_path: Path) -> None:
    """The first one is whole; the others are faults to put in their place."""
    whole, *faults = examples_in("docs/experiments.md")
    text = whole if number == 0 else whole[: whole.index("faults:")] + faults[number - 1]
    (tmp_path / "it.yaml").write_text(text)
    assert load(tmp_path / "it.yaml", deployment="process").faults_on("process", 1)
