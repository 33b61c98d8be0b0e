"""Messages of many groups between two disks, in one frame for each step."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.node import Env, Malformed
from reference.wire.codes import Request
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import as_object, read_json, to_json, whole

_HEAD = struct.Struct(">IHII")  # group, code, size of the fields, size of the body
#: A frame takes no further message once it is so large.
MAX_BUNDLE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class GroupMessage:
    """A message of Raft's from one replica of a group to another."""

    group: int
    message: Command


def node_of(replica: str) -> str:
    """Return the node that a replica is on."""
    return replica.rpartition("#")[0]


def header(env: Env, sender: str, receiver: str) -> dict[str, str]:
    """Return the fields that say between which disks a frame goes, whose stores are at the connection's ends, and what
    the sender's wall clock says (R10)."""
    wall_ms = env.wall_ns() // 1_000_000
    return {"from": sender.rpartition("#")[2], "to": receiver.rpartition("#")[2], "wall": str(wall_ms)}


def read_header(fields: Mapping[str, str]) -> tuple[int, int, int]:
    """Return from which disk a frame goes, to which, and the sender's wall clock in ms. Raises
    :class:`chaos.node.Malformed`."""
    sender, receiver = whole(fields, "from"), whole(fields, "to")
    if min(sender, receiver) < 0:
        raise Malformed("a disk's number is below 0")
    return sender, receiver, whole(fields, "wall")


def pack_bundles(env: Env, sender: str, receiver: str, messages: Sequence[GroupMessage]) -> list[Command]:
    """Return frames for these messages, in their order."""
    bodies: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for one in messages:
        fields = to_json(one.message.fields)
        head = _HEAD.pack(one.group, one.message.code, len(fields), len(one.message.body))
        parts += [head, fields, one.message.body]
        size += len(fields) + len(one.message.body)
        if size >= MAX_BUNDLE_BYTES:
            bodies.append(b"".join(parts))
            parts, size = [], 0
    if parts:
        bodies.append(b"".join(parts))
    fields_of_all = header(env, sender, receiver)
    return [Command(code=Request.GROUPS_MESSAGES, flags=ONEWAY, fields=fields_of_all, body=body) for body in bodies]


def unpack_bundle(body: bytes) -> list[GroupMessage]:
    """Return the messages in a frame. Raises :class:`chaos.node.Malformed`."""
    messages = []
    position = 0
    while position < len(body):
        if position + _HEAD.size > len(body):
            raise Malformed("a message is cut off")
        group, code, fields_size, body_size = _HEAD.unpack_from(body, position)
        middle = position + _HEAD.size + fields_size
        position, end = position + _HEAD.size, middle + body_size
        if end > len(body):
            raise Malformed(f"a message of {fields_size + body_size} bytes is cut off")
        command = Command(code=code, flags=ONEWAY, fields=_fields(body[position:middle]), body=body[middle:end])
        messages.append(GroupMessage(group, command))
        position = end
    return messages


def _fields(text: bytes) -> Mapping[str, str]:
    fields = as_object(read_json(text))
    for name, value in fields.items():
        if type(value) is not str:
            raise Malformed(f"field {name[:80]} is {json.dumps(value)[:80]}, but fields are strings")
    return fields
