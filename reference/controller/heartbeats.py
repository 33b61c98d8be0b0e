"""Heartbeats that a broker sends to any controller: followers gather them and pass them to the leader in bundles.

A bundle says how old each heartbeat is, by the follower's own clock, so that a broker which has fallen silent gets old
at the leader too, whichever node it spoke to last. What a leader has heard later than that counts more.
"""

from __future__ import annotations

from collections.abc import Mapping

from chaos.node import Malformed
from reference.controller.liveness import Heartbeat
from reference.raft.messages import marked
from reference.wire.codes import Request
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import item, listed, read_json, to_json

#: How long a follower gathers heartbeats before it passes them on.
GATHER_NS = 100_000_000
_MS = 1_000_000


class Gathered:
    """The heartbeats that a follower has not passed on yet, by address: of each broker the last one."""

    def __init__(self) -> None:
        self._waiting: dict[str, Heartbeat] = {}

    def add(self, address: str, heartbeat: Heartbeat) -> bool:
        """Add a heartbeat. Return whether it is the first that waits."""
        self._waiting[address] = heartbeat
        return len(self._waiting) == 1

    def bundle(self, now_ns: int) -> bytes:
        """All that wait, as the body of one message; none waits any more."""
        rows = [self._row(address, one, now_ns) for address, one in self.take().items()]
        return to_json(rows)

    def take(self) -> Mapping[str, Heartbeat]:
        """Take what goes into the next bundle."""
        taken, self._waiting = self._waiting, {}
        return taken

    def age_ms(self, heartbeat: Heartbeat, now_ns: int) -> int:
        return (now_ns - heartbeat.heard_ns) // _MS

    def _row(self, address: str, one: Heartbeat, now_ns: int) -> list[object]:
        return [address, one.group, one.broker, self.age_ms(one, now_ns), *one.standing]


def pass_on(bundle: bytes, cluster_id: str) -> Command:
    """Return the message that brings a bundle to the leader."""
    fields = marked(cluster_id)
    return Command(code=Request.CONTROLLER_PASS_HEARTBEATS, flags=ONEWAY, fields=fields, body=bundle)


def read_bundle(body: bytes, now_ns: int) -> dict[str, Heartbeat]:
    """Heartbeats by address, heard as long ago as they are old. Raises :class:`chaos.node.Malformed`."""
    heartbeats = {}
    for row in listed({"the bundle": read_json(body)}, "the bundle", list):
        if len(row) != 7:
            raise Malformed(f"a heartbeat in a bundle has 7 parts, not {len(row)}")
        address, group = (item({"a name": part}, "a name", str) for part in row[:2])
        broker, age_ms, epoch, end, generation = (item({"a number": part}, "a number", int) for part in row[2:])
        if broker < 0 or age_ms < 0:
            raise Malformed(f"broker {broker}, heard {age_ms} ms ago")
        heartbeats[address] = Heartbeat(group, broker, now_ns - age_ms * _MS, (epoch, end, generation))
    return heartbeats
