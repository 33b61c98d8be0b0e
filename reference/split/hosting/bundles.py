"""Messages of many groups between two disks, in one frame for each step."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chaos.node import Env, Malformed
from reference.raft.messages import NAMES
from reference.wire.codes import Request
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import whole

_HEAD = struct.Struct(">IHBI")  # group, code, how many numbers, size of the body
_NUMBERS = [struct.Struct(">" + count * "Bq") for count in range(len(NAMES) + 1)]  # each: which one, and its value
_PLACES = {name: place for place, name in enumerate(NAMES)}
#: A frame takes no further message once it is so large.
MAX_BUNDLE_BYTES = 1 << 20


class GroupMessage(NamedTuple):
    """A message of Raft's from one replica of a group to another: its numbers, and flags among them."""

    group: int
    code: int
    numbers: Mapping[str, int]
    body: bytes


def node_of(replica: str) -> str:
    """Return the node that a replica is on."""
    return replica.rpartition("#")[0]


def header(env: Env, mark: Mapping[str, str], sender: str, receiver: str) -> dict[str, str]:
    """Return the fields that say between which disks a frame goes, whose stores are at the connection's ends, and what
    the sender's wall clock says (R10); and the ``mark`` of the cluster."""
    wall_ms = env.wall_ns() // 1_000_000
    return {"from": sender.rpartition("#")[2], "to": receiver.rpartition("#")[2], "wall": str(wall_ms), **mark}


def read_header(fields: Mapping[str, str]) -> tuple[int, int, int]:
    """Return from which disk a frame goes, to which, and the sender's wall clock in ms. Raises
    :class:`chaos.node.Malformed`."""
    sender, receiver = whole(fields, "from"), whole(fields, "to")
    if min(sender, receiver) < 0:
        raise Malformed("a disk's number is below 0")
    return sender, receiver, whole(fields, "wall")


def pack_bundles(
    env: Env, mark: Mapping[str, str], sender: str, receiver: str, messages: Sequence[GroupMessage]
) -> list[Command]:
    """Return frames for these messages, in their order."""
    bodies: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for one in messages:
        packed = _pack_numbers(one.numbers)
        parts += [_HEAD.pack(one.group, one.code, len(one.numbers), len(one.body)), packed, one.body]
        size += len(packed) + len(one.body)
        if size >= MAX_BUNDLE_BYTES:
            bodies.append(b"".join(parts))
            parts, size = [], 0
    if parts:
        bodies.append(b"".join(parts))
    fields_of_all = header(env, mark, sender, receiver)
    return [Command(code=Request.GROUPS_MESSAGES, flags=ONEWAY, fields=fields_of_all, body=body) for body in bodies]


def _pack_numbers(numbers: Mapping[str, int]) -> bytes:
    flat: list[int] = []
    for name, value in numbers.items():
        flat += (_PLACES[name], value)
    return _NUMBERS[len(numbers)].pack(*flat)


def unpack_bundle(body: bytes) -> list[GroupMessage]:
    """Return the messages in a frame. Raises :class:`chaos.node.Malformed`."""
    messages = []
    position = 0
    while position < len(body):
        if position + _HEAD.size > len(body):
            raise Malformed("a message is cut off")
        group, code, count, body_size = _HEAD.unpack_from(body, position)
        position += _HEAD.size
        if count > len(NAMES):
            raise Malformed(f"a message has {count} numbers")
        middle = position + _NUMBERS[count].size
        end = middle + body_size
        if end > len(body):
            raise Malformed(f"a message of {end - position} bytes is cut off")
        messages.append(GroupMessage(group, code, _unpack_numbers(body, position, count), body[middle:end]))
        position = end
    return messages


def _unpack_numbers(body: bytes, position: int, count: int) -> dict[str, int]:
    flat = _NUMBERS[count].unpack_from(body, position)
    if max(flat[::2], default=0) >= len(NAMES):
        raise Malformed("a number of a message has no name")
    return {NAMES[place]: value for place, value in zip(flat[::2], flat[1::2], strict=True)}
