"""The numbers in Raft's messages, read strictly, and the cluster that they are for."""

from __future__ import annotations

from collections.abc import Mapping

from chaos.node import Malformed
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import whole

#: The numbers in each message. The answer to a snapshot that is complete is one to an append.
_REQUESTS: Mapping[int, tuple[str, ...]] = {
    Request.RAFT_PRE_VOTE: ("term", "last", "last_term"),
    Request.RAFT_VOTE: ("term", "last", "last_term"),
    Request.RAFT_APPEND: ("term", "commit", "round", "prev", "prev_term"),
    Request.RAFT_SNAPSHOT: ("term", "commit", "round", "index", "snapshot_term", "offset", "size"),
    Request.RAFT_READ: ("term", "number"),
    Request.RAFT_TIMEOUT_NOW: ("term",),
}
_APPENDED = ("term", "ok", "match", "prev", "round")
_ANSWERS: Mapping[int, tuple[str, ...]] = {
    Request.RAFT_PRE_VOTE: ("term", "granted"),
    Request.RAFT_VOTE: ("term", "granted"),
    Request.RAFT_APPEND: _APPENDED,
    Request.RAFT_SNAPSHOT: ("term", "index", "offset", "held", "round"),
    Request.RAFT_READ: ("term", "number", "index"),
}
#: The codes of its messages.
MESSAGES = frozenset(_REQUESTS)
_FLAGS = ("answer", "pre", "transfer")
#: What numbers are called, in an order that frames rest on.
NAMES = (
    *("term", "last", "last_term", "commit", "round", "prev", "prev_term", "index", "snapshot_term", "offset", "size"),
    *("number", "ok", "match", "granted", "held", *_FLAGS),
)
#: Those that are never below 0.
_NATURALS = ("term", "last_term", "prev_term", "snapshot_term", "offset", "size")
#: The field with the cluster.
CLUSTER = "cluster"


def marked(cluster_id: str) -> dict[str, str]:
    """Return the field that says for which cluster a message among controllers is; none where clusters have no ids."""
    return {CLUSTER: cluster_id} if cluster_id else {}


def check_cluster(message: Command, cluster_id: str) -> None:
    """Raise :class:`chaos.node.Malformed` for a message of another cluster."""
    found = message.fields.get(CLUSTER, "")
    if found != cluster_id:
        text = f"the sender is of cluster {found!r}, this controller of {cluster_id!r}"
        raise Malformed(text, Response.NO_PERMISSION)


def numbers_of(message: Command) -> dict[str, int]:
    """Return the numbers in a message of Raft's, and its flags. Raises :class:`chaos.node.Malformed`."""
    given = message.fields
    numbers = {key: whole(given, key) for key in _names_in(message.code, "answer" in given)}
    for key in _FLAGS:
        if key in given:
            numbers[key] = 1
    check_numbers(message.code, numbers)
    return numbers


def check_numbers(code: int, numbers: Mapping[str, int]) -> None:
    """Raise :class:`chaos.node.Malformed` unless the numbers in a message of Raft's are all there and none is too
    low."""
    for key in _names_in(code, "answer" in numbers):
        if key not in numbers:
            raise Malformed(f"the message needs {key}")
    for key in _NATURALS:
        if numbers.get(key, 0) < 0:
            raise Malformed(f"{key} is {numbers[key]}")


def _names_in(code: int, is_answer: bool) -> tuple[str, ...]:
    kinds = _ANSWERS if is_answer else _REQUESTS
    if code not in kinds:
        raise Malformed(f"request code {code} has no answer")
    return kinds[code]
