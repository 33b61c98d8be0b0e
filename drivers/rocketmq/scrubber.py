"""Judges what RocketMQ's brokers have left on disks: tier directories, and whole stores (``stormproof scrub``)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from chaos.scrub import Look, Piece
from drivers.rocketmq.files import config, tier_layout, tier_metadata
from drivers.rocketmq.files.store import Store
from drivers.rocketmq.files.tier_layout import QueuePlace
from drivers.rocketmq.files.tier_queue import TierQueue

#: How deep below the given folder tiers and stores are looked for.
DEPTH = 4


@dataclass(frozen=True, slots=True)
class RocketMQScrubber:
    """Implements :class:`chaos.scrub.Scrubber`. A piece is a queue of a tier, or a broker's store; a tier is also
    compared with what the stores nearest to it know of it."""

    holds: str = "tier directories and broker stores of Apache RocketMQ 5"

    def pieces(self, folder: Path) -> Sequence[Piece] | None:
        tiers, stores = _found(folder)
        if not tiers and not stores:
            return None
        pieces = []
        for tier in tiers:
            known = [store for store in stores if _nearest(store, tiers) == tier]
            for place in tier_layout.places(tier):
                look = partial(_look, folder, place, known)
                pieces.append(Piece(name=_shown(folder, tier, place.name), look=look))
        for store in stores:
            beside = _nearest(store, tiers) if tiers else None
            pieces.append(Piece(name=_shown(folder, store, ""), look=partial(_look_at_store, store, beside)))
        return pieces


def _look(folder: Path, place: QueuePlace, stores: Sequence[Path]) -> Look:
    queue = TierQueue(place=place)
    size = sum(record.size for _, record in queue.read())
    damage, knowing = list(queue.damage), False
    for store in stores:
        name = _shown(folder, store, f"config/{config.TIER}")
        known, _ = tier_metadata.segments(config.read(store / "config", config.TIER)[0], name)
        damage += tier_metadata.against(known, place, name)
        knowing |= (place.broker, place.topic, place.queue_id) in tier_metadata.queues(known)
    notes = []
    if stores and not knowing:
        notes.append("no store here knows of it; a topic that is being deleted leaves such a queue")
    if queue.orphaned:
        notes.append(
            f"{queue.orphaned} bytes of its commit log belong to no message; a broken upload leaves such bytes"
        )
    return Look(damage=damage, counted={"messages": queue.messages, "bytes": size}, notes=notes)


def _look_at_store(root: Path, tier: Path | None) -> Look:
    """Look at a store by itself, and at what its metadata know of queues that the tier has no folder for. A tier that
    is gone as a whole is no tier that was found."""
    look = Store(root=root).look()
    if tier is None:
        return look
    known, unreadable = tier_metadata.segments(config.read(root / "config", config.TIER)[0], with_index=True)
    looked_at = {(place.broker, place.topic, place.queue_id) for place in tier_layout.places(tier)}
    damage = [*look.damage, *unreadable]
    for broker, topic, number in tier_metadata.queues(known):
        if (broker, topic, number) not in looked_at:
            cluster = tier_layout.cluster_of(tier, broker)
            place = QueuePlace(root=tier, cluster=cluster, broker=broker, topic=topic, queue_id=number)
            damage += tier_metadata.against(known, place)
    return replace(look, damage=damage)


def _found(folder: Path) -> tuple[list[Path], list[Path]]:
    """Return the tier directories and the stores at this folder or below it. Raises ``OSError``."""
    tiers, stores = [], []
    for path in _folders(folder):
        if tier_layout.clusters(path):
            tiers.append(path)
        elif (path / "commitlog").is_dir() and ((path / "config").is_dir() or (path / "checkpoint").is_file()):
            stores.append(path)
    return tiers, stores


def _folders(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise error

    for path, names, _ in os.walk(folder, onerror=refuse):
        here = Path(path)
        depth = len(here.relative_to(folder).parts)
        yield here
        inside = (here / "commitlog").is_dir() or bool(tier_layout.clusters(here))
        names[:] = [] if depth >= DEPTH or inside else sorted(names)


def _nearest(store: Path, tiers: Sequence[Path]) -> Path:
    """Return the tier whose path has most in common with the store's; one that is shared is the nearest of several."""
    return max(tiers, key=lambda tier: len(os.path.commonpath((store, tier))), default=store)


def _shown(folder: Path, found: Path, inside: str) -> str:
    """Return a path below the folder that was given, for people."""
    return (found / inside).relative_to(folder).as_posix()
