"""What a release depends on, as a CycloneDX bill of materials that is read from the lock file.

``python -m stormproof.release.sbom requirements.lock pyproject.toml`` prints it, and with a third word, the file of a
bill, compares that with the lock instead. Names, versions, hashes and who needs whom come from the lock, licences from
the packages of this environment; one that isn't installed here in this version has none. No time and no random number
are in it: the same lock and environment give the same text.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from chaos.errors import BadInput
from chaos.version import VERSION

#: ``name==version ; marker \``, the first line of an entry.
FIRST = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; (.+?))?(?: \\)?$")
HASH = re.compile(r"^    --hash=(\w+):([0-9a-f]+)(?: \\)?$")
#: ``# via click``, and the lines below ``# via`` alone.
NEEDED_BY = re.compile(r"^    #(?: via|  ) ([A-Za-z0-9._-]+)")
#: CycloneDX's names of hash algorithms.
ALGORITHMS = {"sha256": "SHA-256", "sha384": "SHA-384", "sha512": "SHA-512"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One entry of the lock: ``hashes`` of all its files, as (algorithm, hex digits); ``marker`` says where it is
    needed ("": everywhere), ``needed_by`` names what needs it."""

    name: str
    version: str
    marker: str
    hashes: tuple[tuple[str, str], ...]
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{canonical(self.name)}@{self.version}"


def canonical(name: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(text: str) -> list[Locked]:
    """Return the entries of a lock file, in its order. Raises :class:`BadInput` for a line that it can't read, for what
    is left out of a bill without a word is worse than no bill."""
    found: list[tuple[re.Match[str], list[tuple[str, str]], list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if first := FIRST.match(line):
            found.append((first, [], []))
        elif found and (hashed := HASH.match(line)):
            found[-1][1].append((hashed[1], hashed[2]))
        elif found and (needing := NEEDED_BY.match(line)):
            found[-1][2].append(canonical(needing[1]))
        elif line.strip() not in ("", "# via"):
            raise BadInput(f"line {number} of the lock is no package, hash or reason: {line!r}")
    return [
        Locked(name=it[1], version=it[2], marker=it[3] or "", hashes=tuple(hashes), needed_by=tuple(needed_by))
        for it, hashes, needed_by in found
    ]


def bill(lock: Sequence[Locked], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bill of materials (CycloneDX 1.6). ``project``: the table of that name of ``pyproject.toml``. What is
    only needed to develop is there with the scope ``excluded``."""
    direct = {canonical(re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0]) for need in project["dependencies"]}
    installed = _with_all_they_need(lock, direct)
    ours = f"pkg:pypi/{canonical(project['name'])}@{VERSION}"
    needs = [{"ref": ours, "dependsOn": [it.purl for it in lock if canonical(it.name) in direct]}]
    for one in lock:
        needed = [it.purl for it in lock if canonical(one.name) in it.needed_by]
        needs.append({"ref": one.purl, "dependsOn": needed})
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": ours,
                "name": project["name"],
                "version": VERSION,
                "description": project["description"],
                "licenses": [{"expression": project["license"]}],
                "purl": ours,
            }
        },
        "components": [_component(one, required=canonical(one.name) in installed) for one in lock],
        "dependencies": needs,
    }


def _with_all_they_need(lock: Sequence[Locked], direct: set[str]) -> set[str]:
    found: set[str] = set()
    more = direct
    while more:
        found |= more
        more = {canonical(it.name) for it in lock if found & set(it.needed_by)} - found
    return found


def _component(one: Locked, *, required: bool) -> dict[str, Any]:
    files = {
        "type": "distribution",
        "url": f"https://pypi.org/project/{canonical(one.name)}/{one.version}/#files",
        "comment": "the hashes of all files of this version",
        "hashes": [{"alg": ALGORITHMS[algorithm], "content": digits} for algorithm, digits in one.hashes],
    }
    licences = list(licences_of(one.name, one.version))
    marked = [{"name": "stormproof:marker", "value": one.marker}] if one.marker else []
    return {
        "type": "library",
        "bom-ref": one.purl,
        "name": one.name,
        "version": one.version,
        "scope": "required" if required else "excluded",
        **({"licenses": licences} if licences else {}),
        "purl": one.purl,
        "externalReferences": [files],
        **({"properties": marked} if marked else {}),
    }


def licences_of(name: str, version: str = "") -> Iterator[dict[str, Any]]:
    """Yield what the installed package says of itself: an SPDX expression, else the names of its classifiers, else its
    own words. Nothing if it isn't installed, or not in this version ("": in whichever)."""
    try:
        said = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return
    if version not in ("", said["Version"]):
        return
    if expressions := said.get_all("License-Expression"):
        yield {"expression": expressions[0]}
        return
    prefix = "License :: "
    classifiers = [it for it in said.get_all("Classifier") or () if it.startswith(prefix)]
    names = [it.rpartition(" :: ")[2] for it in classifiers if it != "License :: OSI Approved"]
    own = "".join(said.get_all("License") or ()).strip().splitlines()[:1]
    yield from ({"license": {"name": name}} for name in names or own)


def compare(made: Mapping[str, Any], lock: Sequence[Locked]) -> None:
    """Raise :class:`BadInput` unless the bill names what the lock does: each package, its version, all its hashes."""
    listed = {
        (it["name"], it["version"], one["content"])
        for it in made["components"]
        for reference in it["externalReferences"]
        for one in reference["hashes"]
    }
    wanted = {(it.name, it.version, digits) for it in lock for _, digits in it.hashes}
    if listed != wanted or len(made["components"]) != len(lock):
        first = min(listed ^ wanted, default=("", "", ""))
        where = "the bill lacks" if first in wanted else "the lock lacks"
        raise BadInput(f"the bill of materials is not that of the lock: {where} {' '.join(first)}; make it again")


def main(lock: str, project: str, made: str = "") -> None:
    """Print the bill of materials of a lock file and a ``pyproject.toml``, or compare one that was made."""
    entries = locked(Path(lock).read_text("utf-8"))
    if made:
        compare(json.loads(Path(made).read_text("utf-8")), entries)
        return
    table = tomllib.loads(Path(project).read_text("utf-8"))["project"]
    print(json.dumps(bill(entries, table), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
