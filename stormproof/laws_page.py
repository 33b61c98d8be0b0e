"""The laws and what each can find, as a table that is read from their code.

``python -m stormproof.laws_page docs/laws.md`` writes that table of the page again, between its marks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from chaos.judging.registry import registry
from stormproof.catalogue import fill


def write(page: str) -> str:
    """Return the page with its table made again. Raises :class:`chaos.errors.BadInput` when a mark is missing."""
    return fill(page, {"laws": _rows(page)})


def _rows(page: str) -> Iterator[str]:
    yield from ("| law | promise | what it can find |", "|---|---|---|")
    for promise in registry().promises:
        name = f"[{promise.name}](#{promise.name})" if f"\n## {promise.name}\n" in page else promise.name
        found = ", ".join(f"`{kind.name}`" for kind in promise.anomalies)
        yield f"| {name} | {_cell(promise.meaning)} | {found} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(write(path.read_text("utf-8")).rstrip("\n") + "\n", "utf-8")


if __name__ == "__main__":
    main()
