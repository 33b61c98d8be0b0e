"""What machines of ours can do, and those of others never do: experiments that want it are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chaos.effects.corruption import AtDisk
from chaos.fault import NotNow
from chaos.machines.local_resources import Kind
from chaos.machines.machine import Places
from chaos.program import Installation
from chaos.shell.node_files import NodeFile

_NOT_OURS = "nothing of a cluster that was attached is wiped or changed"


class Untouched:
    """That part of :class:`chaos.machines.machine.Machine`."""

    def places(self, node: str) -> Places:
        return Places(disk="", home="")

    def install(self, recipe: Installation) -> str:
        raise NotNow(_NOT_OURS)

    def listening(self, node: str) -> Sequence[str]:
        return ()

    def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        return {}

    def read(self, node: str, path: str, begin: int, length: int) -> bytes:
        return b""

    def put(self, node: str, file: NodeFile, content: bytes) -> None:
        raise NotNow(_NOT_OURS)

    def get(self, node: str, file: NodeFile, begin: int) -> bytes:
        return b""

    def wipe(self, node: str) -> int:
        raise NotNow(_NOT_OURS)

    def at_disk(self, node: str, do: AtDisk, arguments: Mapping[str, Any]) -> Any:
        raise NotNow(_NOT_OURS)

    def press(self, node: str, kind: Kind, amount: int) -> Mapping[str, object]:
        raise NotNow(_NOT_OURS)

    def release(self, node: str, kind: Kind) -> None:
        pass

    def born(self, node: str) -> None:
        pass
