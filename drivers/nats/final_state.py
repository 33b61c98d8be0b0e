"""What is left in the end of a stream on each server's disk: every message of its blocks, whichever leads.

A stream is a folder of files ``N.blk``, each a row of records: their whole length (its first bit says that there are
headers), sequence number, time, length of the subject, subject, length of the headers and these, body, checksum. Only
what Raft has committed is ever written there. A record that is marked as erased, or as a tombstone, holds no message.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Iterator, Mapping

from chaos.deployment import CanReadFiles
from chaos.driver import Record
from chaos.workload import body_hash
from drivers.nats.api import ACCOUNT
from drivers.nats.client import number_of

#: Below each server's disk.
STORE = "js"
_BLOCKS = f"{STORE}/jetstream/{ACCOUNT}/streams/{{stream}}/msgs/*.blk"
_HEAD, _SIZE = struct.Struct("<IQqH"), struct.Struct("<I")
_HAS_HEADERS, _NO_MESSAGE = 1 << 31, 3 << 62
_CHECKSUM_BYTES = 8
#: What a server has taken, it writes to its files at once, but not before it answers.
TRIES, RETRY_S = 10, 0.3


async def collect(network: CanReadFiles, node: str, stream: str, last: int, record: Record) -> None:
    """Record all messages of the stream that is queue 0, as this server's disk holds them, and that they are complete
    if they go up to the one of sequence number ``last``, which the server names."""
    for _ in range(TRIES):
        try:
            found = {offset: (key, body) for offset, key, body in messages(await _read(network, node, stream))}
        except (ValueError, OSError):
            found = {}
        if max(found, default=-1) + 1 >= last:
            break
        await asyncio.sleep(RETRY_S)
    else:
        return
    record_log(node, found, record)


def record_log(node: str, found: Mapping[int, tuple[int, bytes]], record: Record) -> None:
    """Record the whole copy of queue 0 that a server has: numbers and bodies of messages by their offsets."""
    for offset, (key, body) in sorted(found.items()):
        record("final", f="log", node=node, position=offset, queue=0, offset=offset, message=key, hash=body_hash(body))
    first, end = min(found, default=0), max(found, default=-1) + 1
    ends = {"first": first, "end": end, "confirm": end, "minimums": {"0": first}, "maximums": {"0": end}, "epochs": []}
    record("final", f="node", node=node, value=ends)
    record("final", f="complete", node=node)


async def _read(network: CanReadFiles, node: str, stream: str) -> bytes:
    """Return the content of all blocks of a stream, in their order."""
    content = bytearray()
    found = await network.files(node, [_BLOCKS.format(stream=stream)])
    for path in sorted(found, key=lambda path: int(re.sub("[^0-9]", "", path.rpartition("/")[2]) or 0)):
        begin = len(content)
        while piece := await network.read_file(node, path, len(content) - begin):
            content += piece
    return bytes(content)


def messages(content: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield offset, number and body of each message in blocks. Raises ``ValueError`` where they are damaged."""
    at = 0
    while at < len(content):
        try:
            length, sequence, _, subject_size = _HEAD.unpack_from(content, at)
            begin, end = at + _HEAD.size + subject_size, at + (length & ~_HAS_HEADERS) - _CHECKSUM_BYTES
            head_size = 0
            if length & _HAS_HEADERS:
                (head_size,) = _SIZE.unpack_from(content, begin)
                begin += _SIZE.size
        except struct.error as error:
            raise ValueError(f"the record at {at} is cut off") from error
        if not begin + head_size <= end <= len(content) - _CHECKSUM_BYTES:
            raise ValueError(f"the record at {at} has sizes that can't be")
        if not sequence & _NO_MESSAGE:
            head, body = content[begin : begin + head_size], content[begin + head_size : end]
            yield sequence - 1, number_of(head), body
        at = end + _CHECKSUM_BYTES
