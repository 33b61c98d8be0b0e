"""The number of a run's format, which says how its files are to be read: ``docs/history.md`` describes all of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.errors import BadInput, DamagedHistory
from chaos.history import manifest

#: What stands under this name in ``run.json``; a run that doesn't say has the first format.
FIELD, FIRST = "format", 1
#: The format that runs are recorded in. All up to this one are read.
FORMAT = 3


class UnknownFormat(BadInput):
    """A newer version recorded this run."""


def refuse_unknown(file: Path, meta: Mapping[str, Any]) -> None:
    """Look at what stands in the ``run.json`` of a run. Raises :class:`UnknownFormat` when its format is newer than any
    that is read here, :class:`DamagedHistory` when it is none, or was changed into such a one."""
    number = meta.get(FIELD, FIRST)
    if not isinstance(number, int) or isinstance(number, bool) or number < FIRST:
        raise DamagedHistory(f"{file}: the format must be a whole number from 1 on, not {number!r:.50}")
    if number <= FORMAT:
        return
    run, sealed = file.parent, manifest.read(file.parent)
    if file.name in sealed.files and (problem := manifest.altered(run, sealed, file.name, newest=2)):
        raise DamagedHistory(f"{run}: {problem}")
    versions = meta.get("versions")
    by = f" by Stormproof {versions['stormproof']}" if isinstance(versions, dict) and "stormproof" in versions else ""
    raise UnknownFormat(
        f"{run} was recorded{by} in format {number}, and this version of Stormproof reads the formats {FIRST} to"
        f" {FORMAT}: update Stormproof, or use the version that recorded the run"
    )
