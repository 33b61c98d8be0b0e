"""What presses on the machine of a node in a container: limits on its program, and held syncs.

All of it lasts over the node's lives. The processor is shared out by the engine; memory and descriptors are limited by
the kernel, asked to from within by the user whose process it is; syncs are held by a file in a folder that the harness
and the container share, at which the node's strict disk looks. All calls block: they belong on a thread.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping

from chaos.fault import NotNow
from chaos.machines.docker.node import NodeContainers
from chaos.machines.local_resources import DEADLY, Kind

#: A busy engine may lose what a command has said.
TRIES = 3
_LIMITS = "chaos.machines.rlimits"


class MachineFaults:
    """What weighs on one node."""

    def __init__(self, node: NodeContainers) -> None:
        self._node = node
        self._gate = node.machine / node.GATE
        self._held: dict[Kind, int] = {}
        self._owed: set[Kind] = set()
        self._lock = threading.Lock()

    @property
    def deadly(self) -> bool:
        """Whether the node may have ended of it in this life, which is then no mistake of its own."""
        return any(kind in self._held for kind in DEADLY)

    def press(self, kind: Kind, amount: int) -> Mapping[str, object]:
        """Begin, and return what shows it. Raises :class:`NotNow`."""
        with self._lock:
            if kind in self._held:
                raise NotNow(f"there is pressure on its {kind} already")
            self._held[kind] = amount
            try:
                return self._weigh(kind)
            except BaseException:
                del self._held[kind]
                self._settle(kind)  # it may be limited, and only not have said so
                raise

    def born(self) -> None:
        """Have the life that the node has begun feel what the one before felt."""
        with self._lock:
            self._owed.clear()
            for kind in DEADLY:
                if kind in self._held:
                    self._settle(kind)

    def resumed(self) -> None:
        """Have a node that goes on feel what came and went while nothing could be said to it."""
        with self._lock:
            owed, self._owed = self._owed, set()
            for kind in owed:
                self._settle(kind)

    def release(self, kind: Kind) -> None:
        """End pressure of this kind; nothing happens when there is none."""
        with self._lock:
            if kind not in self._held:
                return
            if kind is Kind.CPU:
                self._node.share_processor(0)
            elif kind is Kind.IO:
                self._gate.unlink(missing_ok=True)
            amount = self._held.pop(kind)
            try:
                self._settle(kind)
            except BaseException:
                self._held[kind] = amount  # to be tried again
                raise

    def _settle(self, kind: Kind) -> None:
        """Limit the program, or free it, as is due now; a paused one when it goes on, a dead one never."""
        if kind not in DEADLY:
            return
        try:
            if kind in self._held:
                self._weigh(kind)
            else:
                self._limited(kind)
        except NotNow:
            self._owed.add(kind)

    def _weigh(self, kind: Kind) -> Mapping[str, object]:
        """Put pressure of this kind on the program; return what shows it. Raises :class:`NotNow`."""
        amount = self._held[kind]
        if kind is Kind.CPU:
            self._node.share_processor(amount)
            return {"share_percent": amount}
        if kind is Kind.IO:
            self._gate.touch()
            return {"gate": self._gate.name}
        return self._limited(kind, str(amount))

    def _limited(self, *words: str) -> Mapping[str, object]:
        """Limit the program, or free it without an amount; return what shows that. Raises :class:`NotNow`."""
        for _ in range(TRIES):
            code, said = self._node.inside([_LIMITS, *words])
            if code:
                raise NotNow(f"it can't be limited: {said}")
            if said:
                shown: Mapping[str, object] = json.loads(said.splitlines()[-1])
                return shown
        raise NotNow("it does not say what its limit is")
