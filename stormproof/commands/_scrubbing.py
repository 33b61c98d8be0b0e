"""Judges what a system left on disks, with the scrubber that a driver offers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos import plugins
from chaos.errors import BadInput
from chaos.plugins import PluginKind
from chaos.scrub import MESSAGES, SCRUBBER, Look, Piece, Scrubber

#: How often a piece is listed again when a file of its list has gone: old files are deleted at any time.
TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """``looks``: what was seen of each piece, by its name. ``unread``: pieces that could not be read, each with the
    reason."""

    driver: str
    looks: Mapping[str, Look]
    unread: Mapping[str, str]

    @property
    def damaged(self) -> int:
        return sum(len(look.damage) for look in self.looks.values())

    @property
    def has_judged(self) -> bool:
        """Whether any piece held something: files full of zeros are whole, and prove nothing."""
        return any(look.counted.get(MESSAGES, 1) for look in self.looks.values())

    @property
    def counted(self) -> Mapping[str, int]:
        """Of what there was how much, over all pieces."""
        total: Counter[str] = Counter()
        for look in self.looks.values():
            total.update(look.counted)
        return dict(sorted(total.items()))


def scrub(folder: Path, wait_s: float) -> list[Scrubbed]:
    """Judge a folder by each driver that knows what is in it. Raises :class:`BadInput` when there is none, or when the
    folder can't be listed."""
    if not folder.is_dir():
        raise BadInput(
            f"{folder}: expected a folder of a system's files, got {'a file' if folder.exists() else 'nothing'}"
        )
    known = _scrubbers()
    found = []
    for driver, scrubber in known.items():
        try:
            pieces = scrubber.pieces(folder)
        except OSError as error:
            raise BadInput(f"{error.filename or folder}: can't be listed: {error.strerror or error}") from error
        if pieces is not None:
            found.append(_judge(driver, pieces, wait_s))
    if not found:
        able = "; ".join(one.holds for one in known.values()) or "none, for no driver has a scrubber"
        raise BadInput(f"{folder}: nothing here that can be judged; what can be: {able}")
    return found


def _scrubbers() -> Mapping[str, Scrubber]:
    found: dict[str, Scrubber] = {}
    for name in plugins.names(PluginKind.DRIVER):
        try:
            module = plugins.load(PluginKind.DRIVER, name)
        except BadInput:
            continue  # broken; `stormproof list drivers` says why
        if hasattr(module, SCRUBBER):
            found[name] = getattr(module, SCRUBBER)
    return found


def _judge(driver: str, pieces: Sequence[Piece], wait_s: float) -> Scrubbed:
    looks: dict[str, Look] = {}
    unread: dict[str, str] = {}
    for piece in pieces:
        _try(piece, looks, unread)
    doubtful = [piece for piece in pieces if piece.name in looks and looks[piece.name].damage]
    if doubtful:
        time.sleep(wait_s)
    for piece in doubtful:
        before = {one.place for one in looks[piece.name].damage}
        _try(piece, looks, unread)
        if piece.name in looks:
            again = looks[piece.name]
            stays = [one for one in again.damage if one.place in before]
            looks[piece.name] = Look(damage=stays, counted=again.counted, notes=again.notes)
    return Scrubbed(driver=driver, looks=looks, unread=unread)


def _try(piece: Piece, looks: dict[str, Look], unread: dict[str, str]) -> None:
    for attempt in range(TRIES):
        try:
            looks[piece.name] = piece.look()
            return
        except OSError as error:
            gone = isinstance(error, FileNotFoundError)
            if not gone or attempt == TRIES - 1:
                looks.pop(piece.name, None)
                unread[piece.name] = f"{error.filename or piece.name}: {error.strerror or error}"
                return
