"""What is left in a split cluster at the end of a run: each store's replicas and their records, and the objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from chaos.driver import Network, Record
from drivers._remoting.collecting import fetch, list_objects
from drivers._remoting.requests import number
from drivers.split.snapshots import describe
from reference.broker import records
from reference.wire.codes import Request, Response
from reference.wire.command import Command

#: No more pieces of one group are read than this.
MAX_PIECES = 100_000
#: What of a replica's state stands in columns.
_COLUMNS = {"epoch": "epoch", "position": "end"}


@dataclass(slots=True)
class Windows:
    """The offsets of the run's queues that a store holds, by their index."""

    minimums: dict[str, int] = field(default_factory=dict)
    maximums: dict[str, int] = field(default_factory=dict)


async def collect_store(network: Network, node: str, queues: Mapping[tuple[str, int], int], record: Record) -> bool:
    """Record the replicas of one store, with their records; return whether all could be read to the end. ``queues``:
    the index of each queue of the run, by its topic and its number."""
    described = await describe(network, node)
    if "groups" not in described:
        return False
    windows, whole = Windows(), True
    for group in sorted(map(int, described["groups"])):
        whole &= await _collect_group(network, node, group, queues, record, windows)
    value = {"minimums": windows.minimums, "maximums": windows.maximums}
    record("final", f="node", node=node, value=value)
    return whole


async def _collect_group(
    network: Network,
    node: str,
    group: int,
    queues: Mapping[tuple[str, int], int],
    record: Record,
    windows: Windows,
) -> bool:
    answer = await fetch(network, node, Command(code=Request.READ_STATE, fields={"group": str(group)}))
    if answer is None or answer.code != Response.SUCCESS:
        return False
    state: dict[str, Any] = json.loads(answer.body)
    columns = {column: state[name] for column, name in _COLUMNS.items()}
    shown = {name: found for name, found in state.items() if name not in _COLUMNS.values()}
    record("final", f="group", node=node, value={**shown, "group": group}, **columns)
    position = int(state["start"])
    for _ in range(MAX_PIECES):
        if position >= state["end"]:
            return True
        fields = {"group": str(group), "position": str(position)}
        answer = await fetch(network, node, Command(code=Request.READ_LOG, fields=fields))
        following = number(answer.fields, "next") if answer is not None and answer.code == Response.SUCCESS else -1
        if answer is None or following <= position:
            return False
        try:
            found = records.decode_all(answer.body)
        except records.BadRecord:
            return False  # what the hashes of its segments show, too
        for one in found:
            _record_one(node, one, queues, record, windows)
        position = following  # what a TRIM has taken from between records is not sent
    return False


def _record_one(node: str, one: Any, queues: Mapping[tuple[str, int], int], record: Record, windows: Windows) -> None:
    index = queues.get((one.topic, one.queue_id), -1)
    if index < 0:
        return  # of a topic that a workload has made: nobody has sent to it
    windows.minimums.setdefault(str(index), one.offset)
    windows.maximums[str(index)] = one.offset + 1
    record(
        "final",
        f="log",
        node=node,
        position=one.position,
        queue=index,
        offset=one.offset,
        message=records.message_number(one.properties),
        hash=records.body_hash(one.body),
        value={"size": one.size},
    )


async def collect_tier(network: Network, node: str, record: Record) -> bool:
    """Record all objects, each with the hash of its bytes; return whether these are all."""
    sizes, whole = await list_objects(network, node)
    for key, size in sizes.items():
        fields = {"key": key, "request": "collect"}
        answer = await fetch(network, node, Command(code=Request.STORE_GET, fields=fields))
        if answer is None:
            return False
        if answer.code == Response.SUCCESS:  # else it was deleted meanwhile
            digest = blake2b(answer.body, digest_size=16).hexdigest()
            record("final", f="object", value={"key": key, "size": size, "digest": digest})
    return whole
