"""The promises and the evidence that each needs, as pages that are made from their classes.

``python -m stormproof.laws_page docs/laws.md`` writes the table of that page again, between its marks, and the heads of
the pages beside it, ``promises/NAME.md``. A promise without a page gets one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from chaos import plugins
from chaos.judging.registry import registry
from chaos.law import Promise
from chaos.plugins import PluginKind
from stormproof.catalogue import BEGIN, END, fill, prose
from stormproof.commands.list import shown_by

FOLDER = "promises"
#: So many planted bugs does a page show.
MOST_PLANTED = 3
#: What a page of a promise begins as.
NEW = "# {}\n\n" + BEGIN.format("promise") + f"\n{END}\n"


def write(page: str) -> str:
    """Return the page of all promises with its table made again. Raises :class:`chaos.errors.BadInput` when a mark is
    missing."""
    return fill(page, {"laws": _rows()})


def write_promise(page: str) -> str:
    """Return the page of one promise, which its heading names, with its head made again."""
    name = page.partition("\n")[0].removeprefix("# ")
    (promise,) = (one for one in registry().promises if one.name == name)
    return fill(page, {"promise": _head(promise)})


def _rows() -> Iterator[str]:
    yield from ("| promise | meaning | evidence |", "|---|---|---|")
    for promise in registry().promises:
        name = f"[{promise.name}]({FOLDER}/{promise.name}.md)"
        yield f"| {name} | {_cell(promise.meaning)} | {_evidence(promise.name)} |"


def _head(promise: Promise) -> Iterator[str]:
    yield from (f"**{promise.meaning}**", "")
    yield from (*prose(f"In an experiment: `laws: [{promise.name}]`. Judged from: {_evidence(promise.name)}."), "")
    violations = [kind for kind in promise.anomalies if not kind.lawful]
    yield from ("| violation | |", "|---|---|")
    yield from (f"| `{kind.name}` | {_cell(kind.meaning)} |" for kind in violations)
    if counted := [kind for kind in promise.anomalies if kind.lawful]:
        yield from ("", "| counted, but allowed | |", "|---|---|")
        yield from (f"| `{kind.name}` | {_cell(kind.meaning)} |" for kind in counted)
    every = (mutant for driver in plugins.names(PluginKind.DRIVER) for mutant in plugins.mutants(driver))
    if planted := [mutant for mutant in every if mutant.law == promise.name][:MOST_PLANTED]:
        yield from ("", "Planted bugs that break it:", "", "```sh")
        yield from (line for one in planted for line in (f"# {_cell(one.stands_for)}", shown_by(one)))
        yield "```"


def _evidence(law: str) -> str:
    return "; ".join(" + ".join(f"`{word}`" for word in some) for some in registry().evidence(law))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(write(path.read_text("utf-8")).rstrip("\n") + "\n", "utf-8")
        for promise in registry().promises:
            page = path.parent / FOLDER / f"{promise.name}.md"
            text = page.read_text("utf-8") if page.exists() else NEW.format(promise.name)
            page.write_text(write_promise(text).rstrip("\n") + "\n", "utf-8")


if __name__ == "__main__":
    main()
