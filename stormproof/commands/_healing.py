"""What ``up``, ``down`` and ``heal`` share: clusters whose nodes can outlive the command that started them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chaos import plugins
from chaos.errors import BadInput
from chaos.history import directory
from chaos.history.run_meta import RUNNING, UP, RunMeta
from chaos.machines.healing import marks, state
from chaos.machines.healing.runs import each
from chaos.plugins import PluginKind
from stormproof.commands import _console
from stormproof.commands._console import printable

if TYPE_CHECKING:
    from chaos.experiment.inventory import Inventory

#: The deployment of runs that don't name theirs, and of `up`.
DEFAULT = "process"
HEAL, HEAL_ALL, LEFTOVERS, CLAIMED = "heal", "heal_all", "leftovers", "claimed"
#: Below it is every run of this machine.
EVERYWHERE = Path("/")


def healers(function: str) -> Mapping[str, Callable[..., Any]]:
    """Return this function of each deployment whose nodes can outlive the command that started them.

    A broken one has none.
    """
    found: dict[str, Callable[..., Any]] = {}
    for name in plugins.names(PluginKind.DEPLOYMENT):
        try:
            healer = getattr(plugins.load(PluginKind.DEPLOYMENT, name), function, None)
        except BadInput:
            continue
        if healer is not None:
            found[name] = healer
    return found


def _function(name: str, function: str) -> Callable[..., Any] | None:
    """Return this function of one deployment. Raises :class:`BadInput` where that is missing or broken."""
    found: Callable[..., Any] | None = getattr(plugins.load(PluginKind.DEPLOYMENT, name), function, None)
    return found


def heal_run(run: Path) -> list[str]:
    """End what one run has left, by its mark and by what the system itself knows; what was done, in sentences."""
    mark = marks.read(run)
    meta = RunMeta() if mark is not None else directory.read_meta(run)
    name = mark.deployment if mark is not None else meta.deployment or DEFAULT
    heal = _function(name, HEAL)
    done: list[str] = heal(run) if heal is not None else []
    if meta.state in (RUNNING, UP) and (made := _moved_from(run, meta)):
        raise BadInput(
            *done,
            f"{run} says that it was made in {printable(str(made))}, where it is no more; if it is yours,"
            f" `stormproof heal {run} --trust` first lists what it would do",
        )
    marks.prune(run, (name,))
    return done


def heal_below(root: Path, among: Mapping[str, object]) -> list[str]:
    """Heal all runs in this folder and below it, on those of all deployments that are ``among`` these."""
    found = {name: heal for name, heal in healers(HEAL_ALL).items() if name in among}
    done = each(lambda heal: heal(root), dict.fromkeys(found.values()))
    marks.prune(root, found)
    return done


def heal_machine(*, yes: bool) -> list[str]:
    """Heal all runs of this user, after all was listed and somebody agreed."""
    listing = healers(LEFTOVERS)
    lines = [line for leftovers in dict.fromkeys(listing.values()) for line in leftovers(EVERYWHERE)]
    if not lines:
        return []
    agree(lines, yes=yes)
    return heal_below(EVERYWHERE, listing)


def heal_trusted(run: Path, inventory: Inventory, *, yes: bool) -> list[str]:
    """Heal a run that was moved, or made where no mark names it, after all was listed and somebody agreed. Then its
    mark says what the run has said, so that it is healed like any other."""
    if marks.read(run) is not None:
        return heal_run(run)
    state.folder()
    meta = directory.read_meta(run)
    name, made = meta.deployment or DEFAULT, _moved_from(run, meta) or run.resolve()
    claimed = _function(name, CLAIMED)
    if claimed is None:
        raise BadInput(f"{run}: --trust is nothing for a run on {name}: leave it out")
    claim = claimed(run, made, inventory)
    if claim.lines:
        agree(claim.lines, yes=yes)
        replace(marks.Mark.fresh(run, name), made=made, harness="", left=claim.left).write()
    return heal_run(run) if claim.lines else []


def agree(lines: Sequence[str], *, yes: bool) -> None:
    """List what would be done, and ask. Raises :class:`BadInput` unless somebody agrees."""
    for line in lines:
        _console.say(line)
    if yes:
        return
    if not sys.stdin.isatty():
        raise BadInput("nothing was done: nobody can be asked here; if the list is right, say --yes")
    if not click.confirm("Do all this?"):
        raise BadInput("nothing was done")


def latest(out: Path) -> Path | None:
    """Return the latest run in this folder that this user made here and that may have left something."""
    if problem := state.problem():
        raise BadInput(f"{problem}; without it your runs are unknown: give a RUN, or --all")
    known = marks.below(out)
    return known[-1].directory if known else None


def show(where: object, done: list[str]) -> None:
    for sentence in done:
        _console.say(sentence)
    if not done:
        _console.say(f"{where}: nothing to heal")


def _moved_from(run: Path, meta: RunMeta) -> Path | None:
    """Return where a run says that it was made, if that is elsewhere and nothing is there any more (else it is a copy
    of what is there). A hint: a stranger who wrote the run may have written this, too."""
    made = Path(meta.directory.replace("\0", ""))
    try:
        gone = made.is_absolute() and made != run.resolve() and not made.exists()
    except OSError:
        return None
    return made if gone else None
