"""Build the site from the pages in this folder: ``make docs``. Needs Zensical; all else is the standard library.

The pages are also read in a checkout, where they link to files beside ``docs/``. Those that the site has as pages too
become links to them; for the others the name alone stays.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HOME = Path(__file__).resolve().parent
ROOT = HOME.parent
CONFIG = HOME / "zensical.toml"
#: Pages of the site that stand elsewhere in the checkout.
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md")
#: What pages show besides text.
SHOWN = (".svg", ".png", ".css")
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
#: What the dark form of a picture is called, beside its light one. The site shows the one that goes with its colours.
DARK = ".dark.png"
#: An item of a list in a list: two spaces are enough on a forge, Python-Markdown wants four.
NESTED = re.compile(r"^  (\* )", re.MULTILINE)
#: A page in a line of the configuration.
NAMED = re.compile(r'"([\w./-]+\.md)"')
#: Long pages, and which of their sections are folded behind their first paragraph: one reads there what one looks up.
FOLDED = {"faults.md": re.compile("### "), "history.md": re.compile("##+ ")}
#: Sections of fewer lines are not. A first paragraph of fewer letters is itself the line that opens the rest.
LEAST_LINES, SHORT = 3, 160


def sources() -> Iterator[tuple[str, Path]]:
    """Each file of the site by its path there, pages and pictures."""
    for path in sorted(HOME.rglob("*")):
        if path.suffix in (".md", *SHOWN):
            yield path.relative_to(HOME).as_posix(), path
    for name in BESIDE:
        yield name, ROOT / name


def place(path: Path) -> str:
    """Where a file of the checkout stands on the site; empty for one that it does not have."""
    if path.is_relative_to(HOME):
        return path.relative_to(HOME).as_posix()
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    return name if name in BESIDE else ""


def page(name: str, folder: Path, text: str) -> str:
    """The text of a page, which stands in ``folder`` of the checkout, with lists and links as the site needs them."""

    def link(found: re.Match[str]) -> str:
        bang, text, target, anchor = found.groups(default="")
        path = (folder / target).resolve()
        there, up = place(path), "../" * name.count("/")
        if bang and path.with_suffix(DARK).exists():
            dark = place(path.with_suffix(DARK))
            return f"![{text}]({up}{there}#only-light)![{text}]({up}{dark}#only-dark)"
        return f"{bang}[{text}]({up}{there}{anchor})" if there else text

    parts = FENCE.split(text)
    made = "".join(part if part.startswith("```") else LINK.sub(link, NESTED.sub(r"    \1", part)) for part in parts)
    return folded(made, FOLDED[name]) if name in FOLDED else made


def folded(text: str, heading: re.Pattern[str]) -> str:
    """The text with what follows the first paragraph of each section behind a line that opens it. Headings stay in
    sight, so links to them work as before."""
    sections, fenced = [""], False
    for line in text.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if line.startswith("#") and not fenced:
            sections.append("")
        sections[-1] += line
    return "".join(fold(one) if heading.match(one) else one for one in sections)


def fold(section: str) -> str:
    title, _, body = section.partition("\n")
    first, _, rest = body.strip("\n").partition("\n\n")
    if not first[:1].isalnum() and first[:1] != "`":  # a table, a list or a mark
        first, rest = "", body.strip("\n")
    if rest.count("\n") < LEAST_LINES:
        return section
    if first and len(first) < SHORT and not LINK.search(first):
        opener, first = " ".join(first.split()), ""
    else:
        opener = f"{title.lstrip('# ')}: more"
    opened = f'<details markdown="1">\n<summary markdown="span">{opener}</summary>\n\n{rest}\n\n</details>'
    return f"{title}\n\n{first}\n\n{opened}\n\n"


def config() -> str:
    """The configuration without the lines of pages that do not exist."""
    known = {name for name, _ in sources()}
    lines = CONFIG.read_text("utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if all(named in known for named in NAMED.findall(line)))


def build(out: Path) -> int:
    """Make the site in ``out / "site"``. Returns 0, or Zensical's exit code if a link is broken."""
    shutil.rmtree(out, ignore_errors=True)
    for name, source in sources():
        target = out / "pages" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(page(name, source.parent, source.read_text("utf-8")), "utf-8")
        else:
            shutil.copyfile(source, target)
    (out / "zensical.toml").write_text(config(), "utf-8")
    return subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=out).returncode


if __name__ == "__main__":
    made = ROOT / ".cache/docs"
    status = build(made)
    if status == 0:
        print(f"{(made / 'site/index.html').relative_to(ROOT)}")
    sys.exit(status)
