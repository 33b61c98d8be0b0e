"""The templates of all pages: compiled once in a process, and once for all of them where the cache can be written."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

import jinja2
from jinja2 import Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined, Template
from jinja2.bccache import Bucket
from markupsafe import Markup

#: What others may do with a folder that code is taken from: nothing.
_OTHERS_WRITE = 0o022


#: In a run's directory: its page.
REPORT = "report.html"


@cache
def style() -> Markup:
    """Return the style of all pages but a timeline's."""
    return Markup((Path(__file__).parent / "run_report" / "report.css").read_text("utf-8"))  # ours


def link(folder: Path, file: Path) -> str:
    """Return where a file is from a page in ``folder``, as an address; "" where there is no such file."""
    return quote(os.fsencode(os.path.relpath(file, folder)), safe="/") if file.is_file() else ""


@cache
def template(name: str) -> Template:
    """Return the template in this file below ``reports/``. What it is given is escaped, and what it lacks is an
    error."""
    return _environment().get_template(name)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("reports", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, bytecode_cache=_compiled(),
    )  # fmt: skip


class _Compiled(FileSystemBytecodeCache):
    """Compiling the report's template takes a tenth of the time of a small check. A file stands for one text of a
    template, and one version of Python; what can't be read or written is compiled as if there were no cache."""

    def load_bytecode(self, bucket: Bucket) -> None:
        try:
            super().load_bytecode(bucket)
        except Exception:  # a file that is no such code may raise anything at all
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)


def _compiled() -> _Compiled | None:
    """Return the cache in the user's own folder; None where there is none, or others may write into it."""
    try:
        cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        owner = next(folder for folder in (cache_home, *cache_home.parents) if folder.exists()).stat().st_uid
        if owner != os.geteuid():  # as for somebody who has become root, and left HOME as it was
            return None
        folder = cache_home / "stormproof" / f"templates-{jinja2.__version__}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except (OSError, RuntimeError):
        return None
    if found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE:
        return None
    return _Compiled(str(folder))
