"""The licences of all that Stormproof depends on, a page of the docs.

``python -m stormproof.release.licences requirements.lock pyproject.toml > docs/licences.md`` writes it. Licences are
what the installed packages say of themselves (:func:`stormproof.release.sbom.licences_of`).
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stormproof.release.sbom import bill, licences_of, locked

#: Of packages for another platform: what their pages on PyPI say.
ELSEWHERE = {"colorama": "BSD License", "pywin32": "Python Software Foundation License"}

INTRODUCTION = """\
# Licences

Stormproof is under the Apache License 2.0. This is what it depends on, as `requirements.lock` has it, with the licence
that each package names in its own metadata. "Use" means that an installed Stormproof needs the package, "development"
that only its tests and checks do. `make test` compares the table with the lock.

| package | licence | needed for |
|---|---|---|
"""

BESIDE = """
Beside the packages of Python:

| what | licence | where |
|---|---|---|
| Apache Spark and its libraries | Apache-2.0, and those that its own `LICENSE` lists | in the package `pyspark` |
| Java 17 or newer | GPL-2.0 with the Classpath Exception (OpenJDK) | not shipped; `setup.sh` installs it if need be |
| axe-core | MPL-2.0 | `tests/axe`, to test the pages; not in the wheel |
| Porcupine | MIT | a rival of the benchmarks, fetched by Go; not in the wheel |
"""


def page(lock: str, project: dict[str, Any]) -> str:
    """Return the page. ``lock``: the text of the lock file; ``project``: the table of that name of
    ``pyproject.toml``."""
    needed = {"required": "use", "excluded": "development"}
    names: dict[str, str] = {it["name"]: needed[it["scope"]] for it in bill(locked(lock), project)["components"]}
    rows = [f"| {name} | {licence(name)} | {purpose} |" for name, purpose in names.items()]
    return INTRODUCTION + "\n".join(rows) + "\n" + BESIDE


def licence(name: str) -> str:
    """Return the licence of a package. Raises ``LookupError`` for a package that says nothing of its licence."""
    said = [one.get("expression") or one["license"]["name"] for one in licences_of(name)]
    if not said and name not in ELSEWHERE:
        raise LookupError(f"{name} names no licence; look it up, and name it in {__name__}.ELSEWHERE")
    return ", ".join(said) or ELSEWHERE[name]


def main(words: Sequence[str]) -> None:
    lock, project = (Path(word).read_text("utf-8") for word in words)
    print(page(lock, tomllib.loads(project)["project"]), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
