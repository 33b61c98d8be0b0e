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
_CLUSTER = "cluster"


def marked(cluster_id: str) -> dict[str, str]:
    """Return the field that says for which cluster a message among controllers is; none where clusters have no ids."""
    return {_CLUSTER: cluster_id} if cluster_id else {}


def check_cluster(message: Command, cluster_id: str) -> None:
    """Raise :class:`chaos.node.Malformed` for a message of another cluster."""
    found = message.fields.get(_CLUSTER, "")
    if found != cluster_id:
        text = f"the sender is of cluster {found!r}, this controller of {cluster_id!r}"
        raise Malformed(text, Response.NO_PERMISSION)


def numbers_of(message: Command) -> dict[str, int]:
    """Return the numbers in a message of Raft's, and its flags. Raises :class:`chaos.node.Malformed`."""
    given = message.fields
    kinds = _ANSWERS if "answer" in given else _REQUESTS
    if message.code not in kinds:
        raise Malformed(f"request code {message.code} has no answer")
    fields = {key: whole(given, key) for key in kinds[message.code]} | {key: 1 for key in _FLAGS if key in given}
    for key in ("term", "last_term", "prev_term", "snapshot_term", "offset", "size"):
        if fields.get(key, 0) < 0:
            raise Malformed(f"{key} is {fields[key]}")
    return fields
