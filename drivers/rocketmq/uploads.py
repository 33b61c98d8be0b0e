"""How much of a tier that all brokers share each of them has uploaded itself, by its own notes, while it runs.

Each broker keeps its own notes of the tier and learns nothing of the others': only what it appends itself is added to
the sizes in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from chaos.deployment import CanReadFiles
from chaos.driver import Network, Record
from chaos.errors import ChaosError
from drivers._remoting.json_text import loads
from drivers.rocketmq.files import config, tier_metadata

NOTES = f"store/config/{config.TIER}"
#: A broker writes its notes of the tier every ten seconds at the latest; a slow machine takes longer.
LATE_S = 20.0
#: So often they are read.
EACH_NS = 5_000_000_000


@dataclass(slots=True)
class Uploads:
    """``_asked_ns``: when the notes were read last."""

    _asked_ns: int = field(default=-EACH_NS, init=False)

    async def poll(self, network: Network, brokers: Iterable[str], record: Record) -> None:
        """Write a poll of each broker whose notes can be read, unless the last one was a moment ago."""
        now_ns = network.now_ns()
        if not isinstance(network, CanReadFiles) or now_ns - self._asked_ns < EACH_NS:
            return
        self._asked_ns = now_ns
        for broker in brokers:
            op = record("poll", type="invoke", f="uploads", node=broker)
            sizes = await _uploaded(network, broker)
            if sizes:
                value = {"files": sizes, "late_s": LATE_S}
                record("poll", type="ok", op=op, f="uploads", node=broker, value=value)


async def _uploaded(files: CanReadFiles, broker: str) -> Mapping[str, int]:
    """Return the sizes in a broker's notes; none when these make no sense, as while they are written."""
    try:
        sizes = await files.files(broker, (NOTES,))
        content = bytearray()
        while len(content) < sizes.get(NOTES, 0):
            piece = await files.read_file(broker, NOTES, len(content))
            if not piece:
                break
            content += piece
        notes = loads(bytes(content))
    except (OSError, ValueError, ChaosError):
        return {}
    known, wrong = tier_metadata.segments(notes if isinstance(notes, dict) else {})
    return {} if wrong else {f"{one.queue}/{one.kind}/{one.base}": one.size for one in known}
