"""The wheel of the nodes' code: all that a container or a host needs besides Python itself.

It holds the nodes' shell, what acts for the harness beside them, and the packages that the nodes of a cluster name
(``package`` of :class:`chaos.node.NodeSpec`), not the harness. It is made from the code that runs right now, whether
that is a checkout or an installation, and needs no tool: a wheel is a zip archive with three files of metadata. The
same code makes the same bytes, so the hash of a wheel shows whether a host has the code that the harness would test.
"""

from __future__ import annotations

import ast
import io
import sys
import threading
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import chaos
from chaos.errors import BadInput
from chaos.node import NodeSpec
from chaos.version import VERSION

NAME = "stormproof_node"
#: What is run of ``chaos``, besides what these import: a node's shell, the message of systems without a protocol, what
#: acts for the harness on a host that is reached through SSH, and what limits a process.
ROOTS = (
    "chaos.shell.node_process",
    "chaos.plain",
    "chaos.shell.exec_program",
    "chaos.machines.ssh.agent",
    "chaos.machines.rlimits",
)
#: What no package need bring.
_ALWAYS_THERE = sys.stdlib_module_names | {"chaos"}
#: The oldest time that a zip archive can hold, for all files.
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
#: Machines are made in several threads, and Python 3.11 counts the depth of what it parses for all threads together.
_parsing = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeWheel:
    """A wheel, its file name, and the SHA-256 of its bytes (bare lower-case hex)."""

    name: str
    data: bytes
    digest: str


@cache
def node_wheel(packages: tuple[str, ...] = ()) -> NodeWheel:
    """Make the wheel, once in a process. ``packages``: those of the nodes, each whole; see :func:`packages_of`. Raises
    :class:`BadInput` when one is not there."""
    files = _shell()
    for package in packages:
        files.update(_files_of(package))
    info = f"{NAME}-{VERSION}.dist-info"
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n".encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: {NAME}\nRoot-Is-Purelib: true\nTag: py3-none-any\n".encode()
    )
    record = "".join(f"{path},sha256={_hash(data)},{len(data)}\n" for path, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in files.items():
            archive.writestr(zipfile.ZipInfo(path, _LONG_AGO), data, zipfile.ZIP_STORED)
    data = buffer.getvalue()
    return NodeWheel(name=f"{NAME}-{VERSION}-py3-none-any.whl", data=data, digest=sha256(data).hexdigest())


def packages_of(nodes: Iterable[NodeSpec]) -> tuple[str, ...]:
    """Return the packages that these nodes need: those that hold the modules they name, and what these import in turn,
    as long as it is Python alone. Of ``chaos``, nodes may import :mod:`chaos.node`, :mod:`chaos.plain` and their shell.
    Raises :class:`BadInput` when one that is named is not there."""
    found: dict[str, None] = {}
    waiting = sorted({spec.package.partition(".")[0] for spec in nodes if spec.package})
    while waiting:
        package = waiting.pop()
        if package not in found:
            found[package] = None
            waiting += _needed_by(package)
    return tuple(sorted(found))


@cache
def _needed_by(package: str) -> tuple[str, ...]:
    """Return the packages that the code of this one imports, but those that are everywhere."""
    imported = {name.partition(".")[0] for source in _files_of(package).values() for name in _imports(source)}
    return tuple(sorted(name for name in imported - _ALWAYS_THERE if _is_portable(name)))


def _is_portable(package: str) -> bool:
    """Return whether there is a package of this name here that is nothing but Python."""
    try:
        folder = package_folder(package)
    except BadInput:
        return False
    return any(folder.glob("*.py")) and not any(folder.rglob("*.so"))


@cache
def package_digest(package: str) -> str:
    """Return the SHA-256 of a package's code (bare lower-case hex). Raises :class:`BadInput`."""
    code = sha256()
    for name, data in _files_of(package).items():
        code.update(f"{name} {_hash(data)}\n".encode())
    return code.hexdigest()


def _shell() -> dict[str, bytes]:
    """Return the code of :data:`ROOTS` and of all that it imports of ``chaos``, by its path in the archive."""
    home = Path(chaos.__file__).parent.parent
    found: dict[str, bytes] = {}
    waiting = list(ROOTS)
    while waiting:
        path = home / waiting.pop().replace(".", "/")
        parents = [parent / "__init__.py" for parent in path.parents if home in parent.parents]
        for file in (path.with_suffix(".py"), path / "__init__.py", *parents):
            name = file.relative_to(home).as_posix()
            if file.is_file() and name not in found:
                found[name] = file.read_bytes()
                waiting += [imported for imported in _imports(found[name]) if imported.startswith("chaos.")]
    return dict(sorted(found.items()))


def _imports(source: bytes) -> list[str]:
    """Return what some code imports by full names: modules, and names that may be modules."""
    with _parsing:
        tree = ast.parse(source)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found += [f"{node.module}", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def _files_of(package: str) -> dict[str, bytes]:
    folder = package_folder(package)
    return {
        f"{package}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in sorted(folder.rglob("*.py"))
    }


def package_folder(package: str) -> Path:
    """Return where the code of a package lies. Raises :class:`BadInput` when there is none of this name."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise BadInput(f"there is no package {package!r} here, which the nodes would need")
    return Path(next(iter(found.submodule_search_locations))).absolute()


def _hash(data: bytes) -> str:
    return urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()
