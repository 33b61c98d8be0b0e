"""What became of messages: sent, acknowledged, refused, read in the end.

It follows from the rows about each message, wherever these stand: :func:`sends_of` and :func:`given_of` choose them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from chaos.history.ends import whole_ends
from chaos.history.history import History
from chaos.history.parted import numbers
from chaos.history.parted.choosing import coded
from chaos.ops import DELIVERED, OpType
from reports.operations import drained, is_word

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: The columns of :func:`sends_of`, and of :func:`given_of`.
SEND_COLUMNS = ("time_ns", "began_ns", "queue", "offset", "message", "type", "node")
GIVEN_COLUMNS = ("time_ns", "message")
#: How the names of clients begin by which the harness asks whether there is service; they are no load.
PROBE = "probe."
#: Of each queue the lowest and the highest offset at which a message was acknowledged that the final reading gave out.
Bounds = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Messages:
    """A column each: messages that were sent, by each queue that they were sent to; when first, in seconds; who
    acknowledged them last, as a number of ``nodes``, -1 where that is unknown; at which offset, the highest of several;
    and what became of them. ``refused``: and nothing else was said of them; ``read_out``: the final reading of their
    queue got to its end; ``removed``: it began behind them. ``given``: how many messages readers were given."""

    sent_s: npt.NDArray[np.float64]
    queue: Ints
    by: Ints
    nodes: list[str]
    offset: Ints
    acked: Flags
    refused: Flags
    final: Flags
    read_out: Flags
    removed: Flags
    given: int

    @classmethod
    def of(cls, sends: pa.Table, given: pa.Table, clock: History) -> Messages:
        """Return those of which these rows of :func:`sends_of` and :func:`given_of`, in their order, say everything.
        ``clock`` says when the final reading began, and has the rows of that."""
        message, type_ = sends["message"].to_numpy(), coded(sends, "type")
        sent, queue, sent_ns = _first_sent(sends, message, is_word(type_, str(OpType.INVOKE)))
        known = numbers.distinct(sent)
        of_message = np.searchsorted(known, sent)

        def noted(about: Ints) -> tuple[Ints, Ints]:
            """Return which of some messages were sent, and their places among those that were."""
            place = np.searchsorted(known, about)
            place[place == len(known)] = 0
            at = np.flatnonzero(known[place] == about) if len(known) else np.empty(0, np.int64)
            return at, place[at]

        def are(about: Ints) -> Flags:
            found = np.zeros(len(known), np.bool_)
            found[noted(about)[1]] = True
            return found[of_message]

        ok = np.flatnonzero(is_word(type_, str(OpType.OK)))
        at, place = noted(message[ok])
        node, nodes = coded(sends, "node")
        by, offset = np.full(len(known), -1, np.int64), np.full(len(known), -1, np.int64)
        by[place] = node[ok[at]]  # of several the last one stays
        np.maximum.at(offset, place, sends["offset"].to_numpy()[ok[at]])
        acked, unclear = are(message[ok]), are(message[is_word(type_, str(OpType.INFO))])
        final = are(given["message"].to_numpy()[clock.seconds(given) >= clock.phase_s("drain")])
        ends = drained(clock)
        read_out, begins = _read_out(queue, *ends)
        return cls(
            sent_s=(sent_ns - clock.zero_ns) / 1e9,
            queue=queue,
            by=by[of_message],
            nodes=nodes,
            offset=offset[of_message],
            acked=acked,
            refused=~unclear & are(message[is_word(type_, str(OpType.FAIL))]),
            final=final,
            read_out=read_out,
            removed=acked & ~final & read_out & (offset[of_message] < begins),
            given=given.num_rows,
        )

    @property
    def missing(self) -> Flags:
        """Which are missing: they were acknowledged, and the final reading went past them without them."""
        return self.acked & ~self.final & self.read_out & ~self.removed

    @property
    def bounds(self) -> Bounds:
        """As far as these messages show them."""
        there = self.acked & self.final & self.read_out
        if not there.any():
            return {}
        queue, offset = self.queue[there], self.offset[there]
        order = np.lexsort((offset, queue))
        queues, begins = np.unique(queue[order], return_index=True)
        low, high = offset[order][begins], offset[order][np.append(begins[1:], len(order)) - 1]
        return dict(zip(queues.tolist(), zip(low.tolist(), high.tolist(), strict=True), strict=True))


def sends_of(rows: pa.Table) -> pa.Table:
    """Return, with :data:`SEND_COLUMNS`, the sends of the load among the rows of operations: each beginning that no end
    here repeats, and each end, with ``began_ns`` if it repeats one."""
    process, processes = coded(rows, "process")
    probes = np.array([*(text.startswith(PROBE) for text in processes), False])[process]
    sends = is_word(coded(rows, "f"), "send") & ~probes
    whole = whole_ends(rows)
    begins = np.flatnonzero(sends & is_word(coded(rows, "type"), str(OpType.INVOKE)))
    again = numbers.among(rows["index"].to_numpy()[begins], rows["op"].to_numpy()[whole & sends])
    sends[begins[again]] = False
    at = np.flatnonzero(sends)
    began_ns = np.where(whole[at], rows["began_ns"].to_numpy()[at], -1)
    chosen = rows.select(SEND_COLUMNS).take(pa.array(at))
    return chosen.set_column(SEND_COLUMNS.index("began_ns"), "began_ns", pa.array(began_ns))


def given_of(rows: pa.Table) -> pa.Table:
    """Return, with :data:`GIVEN_COLUMNS`, the rows by which readers were given messages."""
    given = np.flatnonzero(is_word(coded(rows, "f"), DELIVERED))
    return rows.select(GIVEN_COLUMNS).take(pa.array(given))


def _first_sent(sends: pa.Table, message: Ints, begins: Flags) -> tuple[Ints, Ints, Ints]:
    """Return the messages that were sent, by each queue that they were sent to, and when first."""
    queue, time_ns, began_ns = (sends[name].to_numpy() for name in ("queue", "time_ns", "began_ns"))
    at = np.flatnonzero(begins | (began_ns != -1))
    asked_ns = np.where(begins, time_ns, began_ns)[at]
    order = np.argsort(message[at], kind="stable")
    if (np.diff(message[at][order]) == 0).any():
        order = np.lexsort((asked_ns, queue[at], message[at]))
    message, queue = message[at][order], queue[at][order]
    new = (message[1:] != message[:-1]) | (queue[1:] != queue[:-1])
    first = np.flatnonzero(np.append(True, new)[: len(order)])
    return message[first], queue[first], asked_ns[order][first]


def _read_out(queue: Ints, drained: Ints, begins: Ints) -> tuple[Flags, Ints]:
    """Return which of these queues were read to their end, and where that began; -1 for the others."""
    if not len(drained):
        return np.zeros(len(queue), np.bool_), np.full(len(queue), -1, np.int64)
    place = np.minimum(np.searchsorted(drained, queue), len(drained) - 1)
    found = drained[place] == queue
    return found, np.where(found, begins[place], -1)
