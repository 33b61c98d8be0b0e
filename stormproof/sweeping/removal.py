"""Removing the directories of sweeps."""

from __future__ import annotations

import shutil
from pathlib import Path

from chaos.errors import BadInput, ChaosError, MachineError
from reports.sweeps.row import read as read_row
from stormproof.campaign.campaign import alone
from stormproof.sweeping import plan


def clean(parent: Path, *, keep_failed: bool) -> tuple[list[Path], list[Path]]:
    """Remove the sweeps in this folder; with ``keep_failed`` only those in which every seed was judged VALID. One that
    a process is at work on is never removed. Returns those removed and those kept, by name. Raises
    :class:`MachineError`."""
    removed: list[Path] = []
    kept: list[Path] = []
    for sweep in sorted(path.parent for path in parent.glob(f"*/{plan.PLAN}")):
        stays = sweep.is_symlink() or (keep_failed and not _all_valid(sweep)) or not _remove(sweep)
        (kept if stays else removed).append(sweep)
    return removed, kept


def _remove(sweep: Path) -> bool:
    """Remove it; return whether nobody was at work on it."""
    try:
        with alone(sweep):
            shutil.rmtree(sweep)
    except BadInput:
        return False
    except OSError as error:
        raise MachineError(f"cannot remove {sweep}: {error.strerror or error}") from error
    return True


def _all_valid(sweep: Path) -> bool:
    """Return whether all runs are VALID: not where a seed has no row yet, or what was recorded is damaged."""
    try:
        return all(not read_row(plan.row_path(sweep, key)).failed for key in plan.read(sweep).runs())
    except (ChaosError, OSError):
        return False
