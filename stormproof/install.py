"""Follows the recipe that a driver offers for the programs of its system."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from chaos import plugins
from chaos.errors import BadInput, MachineError
from chaos.plugins import PluginKind
from chaos.recipe import ON_DEMAND, RECIPES, Recipe, Step

#: So much of a failed step's last line is shown.
LAST_LINE = 300
#: How Maven begins its first line that says what went wrong; those below say where to read on.
ERROR = "[ERROR]"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: So long it may take to list what versions there are, so many of them are named, and how one is written.
LIST_S, NEAREST = 60.0, 8
VERSION = re.compile(r"v?\d{1,9}(\.\d{1,9}){1,3}(-[\w.-]{1,40})?")

Say = Callable[[str], None]


def recipes(driver: str) -> tuple[Recipe, ...]:
    """Return what a driver offers, the preferred version first; empty for one whose nodes need no installation."""
    return tuple(getattr(plugins.load(PluginKind.DRIVER, driver), RECIPES, ()))


def offers() -> tuple[Recipe, ...]:
    """Return all recipes of all drivers that load."""
    found: list[Recipe] = []
    for driver in plugins.names(PluginKind.DRIVER):
        try:
            found += recipes(driver)
        except BadInput:
            continue  # broken; `stormproof list drivers` says why
    return tuple(found)


def recipe_for(wanted: str) -> Recipe:
    """Return the first recipe that fits ``etcd``, ``etcd@3.5`` or ``etcd@3.5.17``, or that the driver makes for this
    version on demand. Raises :class:`BadInput` for anything that no driver offers."""
    driver, at, version = wanted.partition("@")
    offered = recipes(driver)
    if not offered:
        others = ", ".join(dict.fromkeys(recipe.system for recipe in offers())) or "none"
        raise BadInput(f"driver {driver!r} has nothing to install; drivers that have: {others}")
    for recipe in offered:
        if not at or recipe.version == version or recipe.version.startswith(f"{version}."):
            return recipe
    on_demand = getattr(plugins.load(PluginKind.DRIVER, driver), ON_DEMAND, None)
    if on_demand is not None:
        try:
            made: Recipe = on_demand(version)
            return made
        except ValueError as error:
            raise BadInput(f"{driver}: {error}") from error
    known = ", ".join(recipe.version for recipe in offered)
    raise BadInput(f"unknown version {version!r} of {driver}; known: {known}")


def install(recipe: Recipe, say: Say, source: Path | None = None) -> Path:
    """Follow the recipe unless that was done before; ``say`` hears in sentences what is done. Returns the folder.
    ``source``: a folder that holds what the recipe would make; it is copied instead.

    It is built aside and put in its place when it is whole, so that nobody ever finds half of one. Raises
    :class:`MachineError` when this machine lacks a tool, or a step fails, and :class:`BadInput` for a source that lacks
    something.
    """
    if recipe.installed:
        say(f"{recipe.title} is there already")
        return recipe.folder
    if source is not None:
        _check_source(recipe, source)
    for tool, fix in recipe.tools.items() if source is None else ():
        if shutil.which(tool) is None:
            raise MachineError(f"{recipe.title} is built with `{tool}`, which is not on the PATH: {fix}")
    folder = recipe.folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as aside:
            if source is None:
                _build(recipe, Path(aside, folder.name), say)
            else:
                say(f"{recipe.title}: copy it from {source}")
                _copy(recipe, Path(aside, folder.name), source)
            _put(recipe, Path(aside, folder.name))
    except OSError as error:
        raise MachineError(f"cannot write to {error.filename or folder}: {error.strerror or error}") from error
    return folder


def _check_source(recipe: Recipe, source: Path) -> None:
    missing = [made for made in recipe.makes if not (source / made).exists()]
    if missing:
        raise BadInput(f"{source} does not hold {recipe.title}: it lacks {', '.join(missing)}")


def _copy(recipe: Recipe, folder: Path, source: Path) -> None:
    """Copy what the recipe makes, with all that stands in the same folders at the top."""
    folder.mkdir()
    for top in sorted({Path(made).parts[0] for made in recipe.makes}):
        if (source / top).is_dir():
            shutil.copytree(source / top, folder / top)
        else:
            shutil.copy2(source / top, folder / top)


def _build(recipe: Recipe, folder: Path, say: Say) -> None:
    for name, text in recipe.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for step in recipe.steps:
        say(f"{recipe.title}: {step.does}")
        _follow(recipe, step, folder)
    missing = [made for made in recipe.makes if not (folder / made).exists()]
    if missing:
        raise MachineError(f"{recipe.title}: the recipe has ended well, but did not make {', '.join(missing)}")


def _follow(recipe: Recipe, step: Step, folder: Path) -> None:
    """Run one step in a group of its own, so that it can be ended with all that it has started."""
    command = " ".join(step.command)
    process = subprocess.Popen(
        step.command,
        cwd=folder,
        env={**os.environ, **recipe.env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=step.limit_s)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            text = f"{recipe.title}: `{command}` did not end within {step.limit_s:g} s: {step.mend}"
            raise MachineError(text) from None
        raise
    if process.returncode:
        if near := _nearest_versions(recipe, step, folder):
            raise BadInput(f"{recipe.title}: there is no such version; what there is, nearest first: {', '.join(near)}")
        raise MachineError(f"{recipe.title}: `{command}` failed ({_last(output)}): {step.mend}")


def _nearest_versions(recipe: Recipe, step: Step, folder: Path) -> Sequence[str]:
    """Return the versions that there are instead of the recipe's, the nearest first; none where it is among them, or
    nothing lists them."""
    if not step.lists:
        return ()
    env = {**os.environ, **recipe.env}
    try:
        said = subprocess.run(
            step.lists, cwd=folder.parent, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIST_S
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    words = said.stdout.decode("utf-8", "replace").split()
    known = {word.removeprefix("v") for word in words if VERSION.fullmatch(word)}
    return () if recipe.version in known else sorted(known, key=lambda one: _distance(one, recipe.version))[:NEAREST]


def _distance(version: str, wanted: str) -> tuple[object, ...]:
    """Return how far a version is from another one, as a key to sort by: the first number that differs decides, then
    whether it is finished and above, then how near it comes to the other one from its side."""
    (one, suffix), (two, _) = (_numbers(text) for text in (version, wanted))
    longest = max(len(one), len(two))
    one, two = (numbers + (0,) * (longest - len(numbers)) for numbers in (one, two))
    at = next((place for place in range(longest) if one[place] != two[place]), longest)
    is_below = one < two
    rest = [-number if is_below else number for number in one[at:]]
    return (-at, abs(one[at] - two[at]) if at < longest else 0, bool(suffix), is_below, rest, suffix)


def _numbers(version: str) -> tuple[tuple[int, ...], str]:
    numbers, _, suffix = version.partition("-")
    return tuple(int(number) for number in numbers.split(".") if number.isdigit()), suffix


def _last(output: bytes) -> str:
    """Return the last line of a step, or the first that it calls an error; neither colours nor what is empty."""
    plain = _COLOUR.sub("", output.decode("utf-8", "replace"))
    lines: Sequence[str] = [line.strip() for line in plain.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith(ERROR)), lines[-1] if lines else "it said nothing")[
        :LAST_LINE
    ]


def _put(recipe: Recipe, made: Path) -> None:
    """Move into place what was made; where somebody else was quicker, theirs stays, and what is incomplete goes."""
    if recipe.installed:
        return
    shutil.rmtree(recipe.folder, ignore_errors=True)
    try:
        os.rename(made, recipe.folder)
    except OSError:
        if not recipe.installed:
            raise
