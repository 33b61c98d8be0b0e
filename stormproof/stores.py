"""The stores into which this user's runs have put segments, as the user's own state folder has them: what a run says of
itself gives nobody the power to have this machine open connections."""

from __future__ import annotations

from contextlib import suppress

from chaos import guarded
from chaos.errors import ChaosError, MachineError
from chaos.history import stored
from chaos.machines.healing import state

FILE = "stores"


def remember(store: str) -> None:
    """Have segments read there, now and in later commands of this user; only now, where there is no state folder.
    Raises :class:`MachineError` where it can't be written."""
    stored.allow(store)
    if not state.problem():
        known = dict.fromkeys([*_known(), stored.checked(store)])
        guarded.write(state.folder() / FILE, "".join(f"{one}\n" for one in known))


def recall() -> None:
    """Have segments read in the stores that are remembered."""
    for store in _known():
        with suppress(ChaosError):
            stored.allow(store)


def _known() -> list[str]:
    """Return what is remembered; nothing where others may have written it."""
    try:
        if not guarded.is_there(state.place() / FILE) or state.problem():
            return []
        return guarded.read(state.place() / FILE).decode("utf-8", "replace").splitlines()
    except (OSError, MachineError):
        return []
