"""What the driver makes of a broker's notes of the tier while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaos.driver import Evidence
from chaos.errors import DeploymentError
from drivers.rocketmq.driver import Options, create
from drivers.rocketmq.uploads import EACH_NS, NOTES, Uploads
from tests.drivers.rocketmq.fake import FakeNetwork

#: As a real 5.5.0 writes it: the keys that are numbers are not quoted.
WHOLE = (
    b'{"commitLogFileSegmentTable":{"broker-a/storm/0":{0:{"baseOffset":0,"size":310,"status":0}}},'
    b'"consumeQueueFileSegmentTable":{"broker-a/storm/0":{0:{"baseOffset":0,"size":20,"status":0}}}}'
)


@dataclass(slots=True)
class Disks(FakeNetwork):
    """Implements :class:`chaos.deployment.CanReadFiles` besides: the notes of each broker."""

    notes: Mapping[str, bytes] = field(default_factory=dict)

    async def files(self, node: str, globs: Sequence[str]) -> Mapping[str, int]:
        if node not in self.notes:
            raise DeploymentError(f"there is no {node}")
        assert tuple(globs) == (NOTES,)
        return {NOTES: len(self.notes[node])}

    async def read_file(self, node: str, path: str, begin: int = 0, length: int = 1 << 20) -> bytes:
        return self.notes[node][begin : begin + min(length, 100)]


def polled(network: FakeNetwork, uploads: Uploads) -> dict[str, Any]:
    """The values that were told, by node."""
    told: dict[str, Any] = {}

    def record(kind: str, **columns: Any) -> int:
        assert (kind, columns["f"]) == ("poll", "uploads")
        if columns["type"] == "ok":
            told[columns["node"]] = columns["value"]["files"]
        return 0

    asyncio.run(uploads.poll(network, ("broker-0", "broker-1", "broker-2"), record))
    return told


def test_each_broker_tells_the_sizes_in_its_own_notes() -> None:
    network = Disks(notes={"broker-0": WHOLE, "broker-1": WHOLE[:90]})
    sizes = {"broker-a/storm/0/COMMIT_LOG/0": 310, "broker-a/storm/0/CONSUME_QUEUE/0": 20}
    uploads = Uploads()
    assert polled(network, uploads) == {"broker-0": sizes}  # half a file, and a node without files, tell nothing
    assert polled(network, uploads) == {}
    network.clock_ns += EACH_NS
    assert polled(network, uploads) == {"broker-0": sizes}


def test_only_of_a_tier_that_all_share_it_is_told_who_uploads() -> None:
    assert Evidence.UPLOADS in create(Options(tier=True, shared_tier=True)).evidence()
    assert Evidence.UPLOADS not in create(Options(tier=True)).evidence()
    assert polled(FakeNetwork(), Uploads()) == {}
