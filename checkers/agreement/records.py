"""A record in words: who says so, where it stands and what it holds."""

from __future__ import annotations

from chaos.shard_rows import Rows
from checkers import _facts as facts


def describe(rows: Rows, at: int) -> str:
    """Describe one claim in words: which message, by whom, when, in which epoch."""
    message, node = int(rows.column("message")[at]), rows.text("node", at)
    which = f"message {message >> 40}/{message & (1 << 40) - 1}" if message >= 0 else "a message without an id"
    if rows.column("queue")[at] < 0:
        which = "a record of the system itself"
    epoch = int(rows.column("epoch")[at])
    who = facts.who(node, epoch)
    match (rows.text("kind", at), rows.text("f", at)):
        case ("op", "send"):
            return f"{which} was acknowledged there by {who} at {facts.at_s(rows, at)}"
        case ("op", _):
            return f"{which} was read there from {who} at {facts.at_s(rows, at)}"
        case ("trace", _):
            return f"{which} stood there, confirmed, in the log of {who}"
        case (_, "node_read"):
            return f"{which} is what {who} answered there by itself after recovery"
        case (_, "tiered"):
            return f"{which} stands there in the tier"
        case _:
            return f"{which} stands there in the log of {who} after recovery"
