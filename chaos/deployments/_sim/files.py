"""What disk faults (:mod:`chaos.effects.corruption`) work on: a simulated disk, and copies of disks in memory."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.deployments._sim.disk import SimDisk


class SimFiles:
    """Implements :class:`chaos.effects.corruption.Files`."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    def names(self) -> Sequence[str]:
        return self._disk.durable_names()

    def read(self, name: str) -> bytes:
        return self._disk.durable(name)

    def put(self, name: str, content: bytes) -> None:
        self._disk.replace(name, content)

    def remove(self, name: str) -> None:
        self._disk.replace(name, None)


class CopiedFiles:
    """Implements :class:`chaos.effects.corruption.Files`."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def names(self) -> Sequence[str]:
        return sorted(self._files)

    def read(self, name: str) -> bytes:
        return self._files[name]

    def put(self, name: str, content: bytes) -> None:
        self._files[name] = content

    def remove(self, name: str) -> None:
        del self._files[name]
