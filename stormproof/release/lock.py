"""The lock file of a release: which packages, at which versions, with which files, and who needs whom."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.errors import BadInput

#: ``name==version ; marker \``, the first line of an entry.
FIRST = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; (.+?))?(?: \\)?$")
HASH = re.compile(r"^    --hash=(\w+):([0-9a-f]+)(?: \\)?$")
#: ``# via click``, and the lines below ``# via`` alone.
NEEDED_BY = re.compile(r"^    #(?: via|  ) ([A-Za-z0-9._-]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One entry of the lock: ``name`` as PyPI compares it, ``hashes`` of all its files as (algorithm, hex digits);
    ``marker`` says where it is needed ("": everywhere), ``needed_by`` names what needs it."""

    name: str
    version: str
    marker: str
    hashes: tuple[tuple[str, str], ...]
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def canonical(name: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_lock(text: str) -> list[Locked]:
    """Return the entries of a lock file, in its order. Raises :class:`BadInput` for a line that it can't read: a
    package that is left out without a word is worse than no list."""
    found: list[tuple[re.Match[str], list[tuple[str, str]], list[str]]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if first := FIRST.match(line):
            found.append((first, [], []))
        elif found and (hashed := HASH.match(line)):
            found[-1][1].append((hashed[1], hashed[2]))
        elif found and (needing := NEEDED_BY.match(line)):
            found[-1][2].append(canonical(needing[1]))
        elif line.strip() not in ("", "# via"):
            raise BadInput(f"line {number} of the lock is not a package, a hash or a reason: {line!r}")
    return [
        Locked(
            name=canonical(it[1]), version=it[2], marker=it[3] or "", hashes=tuple(hashes), needed_by=tuple(needed_by)
        )
        for it, hashes, needed_by in found
    ]


#: The extra that is not for users.
DEVELOPMENT = "dev"


def direct_needs(project: Mapping[str, Any]) -> set[str]:
    """Return the packages that the table ``project`` of a ``pyproject.toml`` names as dependencies."""
    return set(map(_name, project["dependencies"]))


def runtime_needs(lock: Sequence[Locked], project: Mapping[str, Any]) -> set[str]:
    """Return the packages that an installed Stormproof needs; the lock's others are for extras or development."""
    return _with_needs(lock, direct_needs(project))


def extra_needs(lock: Sequence[Locked], project: Mapping[str, Any]) -> dict[str, str]:
    """Return the extra for which a package is installed besides, by package; the first of several."""
    found: dict[str, str] = {}
    for extra, needs in project["optional-dependencies"].items():
        if extra != DEVELOPMENT:
            found = {**dict.fromkeys(_with_needs(lock, set(map(_name, needs))), extra), **found}
    return {name: extra for name, extra in found.items() if name not in runtime_needs(lock, project)}


def _name(need: str) -> str:
    return canonical(re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0])


def _with_needs(lock: Sequence[Locked], direct: set[str]) -> set[str]:
    found, more = set[str](), direct
    while more:
        found |= more
        more = {it.name for it in lock if found & set(it.needed_by)} - found
    return found
