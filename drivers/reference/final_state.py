"""What is left in the reference system at the end of a run: whole logs and offsets of each broker, and the tier."""

from __future__ import annotations

import json
from typing import Any

from chaos.driver import Network, Record
from drivers._remoting.collecting import fetch, list_objects
from reference.broker import records
from reference.tier.objects import content_hash, parse_key
from reference.tier.objects import decode as decode_object
from reference.wire.codes import Request, Response
from reference.wire.command import Command

#: No more slices of one log than this are read; one slice is up to 1 MiB.
MAX_SLICES = 100_000
#: How the names of topics begin that no client has made: those of groups, for messages that they send back.
SYSTEM_PREFIX = "%"


async def collect_broker(network: Network, node: str, record: Record) -> bool:
    """Record the state of one broker; return whether it could be read to its end."""
    state_answer = await fetch(network, node, Command(code=Request.READ_STATE))
    if state_answer is None:
        return False
    state = json.loads(state_answer.body)
    shown = {name: state[name] for name in ("first", "end", "confirm", "epochs", "minimums", "maximums", "role")}
    record("final", f="node", node=node, epoch=state["epoch"], value=shown)
    for view in state["views"]:
        columns = {name: view[name] for name in ("queue", "offset", "position", "epoch", "hash")}
        record("final", f="view", node=node, value={"version": view["version"]}, **columns)
    record("final", f="offsets", node=node, value={"groups": state["offsets"]})
    made = {name: one for name, one in state["topics"].items() if not name.startswith(SYSTEM_PREFIX)}
    record("final", f="topics", node=node, value={"topics": made})
    position = -1
    for _ in range(MAX_SLICES):
        answer = await fetch(network, node, Command(code=Request.READ_LOG, fields={"position": str(position)}))
        if answer is None:
            return False
        part = json.loads(answer.body)
        for epoch, at, size, queue, offset, message, hash, system in part["records"]:
            record(
                "final",
                f="log",
                node=node,
                epoch=epoch,
                position=at,
                queue=queue,
                offset=offset,
                message=message,
                hash=hash,
                value={"size": size, "system": system} if system else {"size": size},
            )
        if part["next"] >= part["end"]:
            return True
        if part["next"] <= position:
            return False
        position = part["next"]
    return False


async def collect_store(network: Network, node: str, record: Record) -> bool:
    """Record the manifests, each record that they name, and the objects that none names; return whether these are
    all."""
    keys, whole = await list_objects(network, node)
    named: set[str] = set()
    for key in keys:
        if not key.endswith("/manifest"):
            continue
        content = await _get_object(network, node, key)
        if content is None:
            whole = False
            continue
        manifest = json.loads(content)
        columns = {
            "queue": manifest["queue"],
            "offset": manifest["end"],
            "position": manifest["position"],
            "epoch": manifest["epoch"],
            "hash": content_hash(content),
        }
        shown = {"version": manifest["version"], "content": manifest}
        record("final", f="manifest", node=node, value=shown, **columns)
        for segment in manifest["segments"]:
            named.add(segment["key"])
            whole &= await _collect_object(network, node, segment, manifest["queue"], record)
    for key in keys:
        if key not in named and not key.endswith("/manifest"):
            name = parse_key(key)
            record("final", f="orphan", node=node, queue=name.queue if name else -1, value={"key": key})
    return whole


async def _collect_object(network: Network, node: str, segment: Any, queue: int, record: Record) -> bool:
    key = segment["key"]
    content = await _get_object(network, node, key)
    if content is None:
        return False
    for stored in decode_object(content)[: segment["count"]]:  # what a manifest has cut off is no part of the queue
        one = records.decode(stored.data)
        record(
            "final",
            f="tiered",
            node=node,
            queue=queue,
            offset=stored.offset,
            position=stored.position,
            epoch=stored.epoch,
            message=records.message_number(one.properties),
            hash=records.body_hash(one.body),
            value={"key": key},
        )
    return True


async def _get_object(network: Network, node: str, key: str) -> bytes | None:
    answer = await fetch(network, node, Command(code=Request.STORE_GET, fields={"key": key, "request": "collect"}))
    return answer.body if answer is not None and answer.code == Response.SUCCESS else None
