"""The laws and the evidence that each needs, as a table that is read from their code.

``python -m stormproof.laws_page docs/laws.md`` writes that table of the page again, between its marks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from chaos.driver import Evidence
from chaos.judging.registry import registry
from stormproof.catalogue import fill


def write(page: str) -> str:
    """Return the page with its table made again. Raises :class:`chaos.errors.BadInput` when a mark is missing."""
    return fill(page, {"laws": _rows(page)})


def _rows(page: str) -> Iterator[str]:
    yield from ("| law | promise | evidence |", "|---|---|---|")
    for promise in registry().promises:
        is_defined = f"\n## {promise.name}\n" in page
        name = f"[{promise.name}](#{promise.name})" if is_defined else promise.name
        finds = "" if is_defined else " Finds " + ", ".join(f"`{kind.name}`" for kind in promise.anomalies)
        yield f"| {name} | {_cell(promise.meaning)}{finds} | {_evidence(promise.name)} |"


def _evidence(law: str) -> str:
    """Return the sets of evidence of which each lets a part of the law be judged; operations are always there."""
    needed = {kernel: registry().kernels[kernel].needs.evidence for kernel in registry().of(law)}
    sets = {tuple(sorted(str(one) for one in some)) for some in needed.values()}
    more = {tuple(word for word in some if word != Evidence.OPERATIONS) or some for some in sets}
    return "; ".join(" + ".join(f"`{word}`" for word in some) for some in sorted(more))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(write(path.read_text("utf-8")).rstrip("\n") + "\n", "utf-8")


if __name__ == "__main__":
    main()
