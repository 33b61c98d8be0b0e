"""``stormproof new``: a package of one's own, to start from."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import click

from chaos import plugins
from chaos.errors import BadInput, MachineError
from chaos.plugins import PluginKind
from stormproof.commands import _console

DRIVER = str(PluginKind.DRIVER)
TEMPLATE = "stormproof.driver_package"
#: What the template calls its system, in paths and in texts; classes begin with a capital.
PLACEHOLDER = "tinyq"
NAME = re.compile(r"(?=.{1,40}$)[a-z][a-z0-9]*(_[a-z0-9]+)*")


@click.command()
@click.argument("kind", metavar=DRIVER)
@click.argument("name")
def new(kind: str, name: str) -> None:
    """Write a package to start from into ./stormproof-NAME: a driver for a system of your own.

    It works as it is, for a toy: a driver, a recipe, a test, and experiments that kill, cut links and cut the power.
    Its README.md says what to run, and what to replace. The folder must not exist.
    """
    if kind != DRIVER:
        raise BadInput(f"there is no template for {kind[:80]!r}; write `stormproof new {DRIVER} NAME`")
    _check(name)
    folder = Path(f"stormproof-{name}")
    if folder.exists() or folder.is_symlink():
        raise BadInput(f"{folder} exists already; choose another name, or remove it")
    try:
        for path, text in _files(name).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, "utf-8")
            _console.say(folder / path)
    except OSError as error:
        raise MachineError(f"cannot write to {folder}: {error.strerror or error}") from error
    _console.say(f"next: cd {folder}, and follow its README.md", err=True)


def _check(name: str) -> None:
    """Raise :class:`BadInput` for a name that a driver can't have: modules, experiments and paths hold it."""
    if not NAME.fullmatch(name):
        raise BadInput(
            f"a driver can't be called {name[:80]!r}: expected at most 40 small letters, digits and single _, a letter"
            " first, for example my_broker"
        )
    if name in plugins.names(PluginKind.DRIVER):
        raise BadInput(f"there is a driver {name!r} already (`stormproof list drivers`); choose another name")


def _files(name: str) -> dict[Path, str]:
    """Return the package's files and their texts, under this name."""
    found: dict[Path, str] = {}
    with resources.as_file(resources.files(TEMPLATE)) as template:
        for path in sorted(template.rglob("*")):
            relative = path.relative_to(template)
            if path.is_file() and path.suffix != ".pyc" and relative != Path("__init__.py"):
                found[Path(_renamed(str(relative), name))] = _renamed(path.read_text("utf-8"), name)
    return found


def _renamed(text: str, name: str) -> str:
    class_name = "".join(part.capitalize() for part in name.split("_"))
    return text.replace(PLACEHOLDER.capitalize(), class_name).replace(PLACEHOLDER, name)
