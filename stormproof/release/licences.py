"""The licences of all that Stormproof depends on, a page of the docs.

``python -m stormproof.release.licences dist/stormproof.cdx.json > docs/licences.md`` writes it from the bill of
materials.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stormproof.release.sbom import EXTRA

#: Of packages for another platform: what their pages on PyPI say.
ELSEWHERE = {"colorama": "BSD License", "pywin32": "Python Software Foundation License"}

INTRODUCTION = """\
# Licences

Stormproof is under the Apache License 2.0. This is what it depends on, as `requirements.lock` has it, with the licence
that each package names in its own metadata. "Use" means that an installed Stormproof needs the package, an extra that
only `pip install 'stormproof[EXTRA]'` brings it, "development" that only tests and checks need it.

| package | licence | needed for |
|---|---|---|
"""

BESIDE = """
Besides the packages of Python:

| what | licence | where |
|---|---|---|
| Apache Spark and its libraries | Apache-2.0, and those that its own `LICENSE` lists | in the package `pyspark` |
| Java 17 or newer | GPL-2.0 with the Classpath Exception (OpenJDK) | not shipped; `setup.sh` installs it if need be |
| librdkafka | BSD-2-Clause | in the package `confluent-kafka` |
| axe-core | MPL-2.0 | `tests/axe`, to test the pages; not in the wheel |
| Porcupine | MIT | a rival of the benchmarks, fetched by Go; not in the wheel |
"""


def needed_for(component: Mapping[str, Any]) -> str:
    """Return what a package is needed for."""
    if component["scope"] == "optional":
        return next(f"extra `{it['value']}`" for it in component["properties"] if it["name"] == EXTRA)
    return {"required": "use", "excluded": "development"}[component["scope"]]


def page(bill: Mapping[str, Any]) -> str:
    """Return the page. Raises ``LookupError`` for a package whose licence nothing names."""
    named: dict[str, list[Mapping[str, Any]]] = {}
    for it in bill["components"]:  # once for each version
        named.setdefault(it["name"], []).append(it)
    rows = [f"| {name} | {licence(name, versions)} | {needed_for(versions[0])} |" for name, versions in named.items()]
    return INTRODUCTION + "\n".join(rows) + "\n" + BESIDE


def licence(name: str, versions: Sequence[Mapping[str, Any]]) -> str:
    """Return the licence of a package: SPDX's name where the package gives one, else its own words."""
    given = [it for one in versions for it in one.get("licenses", ())]
    spdx = [it.get("expression") or it["license"].get("id") for it in given]
    words = [it["license"]["name"].rpartition(" :: ")[2] for it in given if "name" in it.get("license", {})]
    found = [it for it in spdx if it] or words
    if not found and name not in ELSEWHERE:
        raise LookupError(f"{name} names no licence; look it up, and name it in {__name__}.ELSEWHERE")
    return ", ".join(dict.fromkeys(found)) or ELSEWHERE[name]


if __name__ == "__main__":
    print(page(json.loads(Path(sys.argv[1]).read_text("utf-8"))), end="")
