"""A replica that is elected has what was acknowledged before: it goes on behind that (Kafka's KIP-966)."""

from __future__ import annotations

import numpy as np

from chaos.findings import Findings
from chaos.law import RunContext
from chaos.shard_rows import Rows
from checkers import _facts as facts
from checkers._facts import later, losses
from checkers._facts.arrays import Flags, Highest, Ints, first_in, slots, stable_order
from checkers.log.promise import ELECTED_WITHOUT_ACKNOWLEDGED
from checkers.log.rows import Sent, sends_of_each


def check(rows: Rows, context: RunContext, found: Findings) -> None:
    """Find sends that were put at, or before, the offset of a message that another leader had acknowledged before they
    began: so at its election the one lacked what the other had. What an answer gives may be an older attempt's place,
    so only messages that were sent once show it."""
    sent = rows.memo(Sent.of)
    acked = sent.only(sent.ok & (sent.offset >= 0))
    began, ended = (rows.column("index")[at] for at in (acked.invoke, acked.done))
    known = Highest(acked.queue, ended, acked.offset, int(rows.column("index").max(initial=0)) + 1)
    highest = known.before(acked.queue, began)
    behind = np.flatnonzero((highest >= acked.offset) & (rows.memo(sends_of_each)[acked.number] == 1))
    witness = _first_at(acked, ended, acked.queue[behind], highest[behind])
    elected = _by_another_leader(rows, acked.done[witness], acked.done[behind])
    behind, witness = behind[elected], witness[elected]
    apart = losses.cuts(rows, context, confirmed=False).separate(rows, acked.done[witness], acked.done[behind])
    behind, witness = behind[~apart], witness[~apart]
    _, first = np.unique(np.stack([acked.queue[behind], highest[behind]]), axis=1, return_index=True)
    _report(rows, found, acked, behind[np.sort(first)], witness[np.sort(first)])


def _first_at(acked: Sent, ended: Ints, queue: Ints, offset: Ints) -> Ints:
    """Return the places of the sends that were acknowledged first at these offsets of these queues."""
    slot, count = slots(np.append(acked.queue, queue), np.append(acked.offset, offset))
    order = stable_order(ended)
    return first_in(slot[order], count, order)[slot[len(order) :]]


def _by_another_leader(rows: Rows, earlier: Ints, since: Ints) -> Flags:
    """Return which of these answers came from another node, or in a later epoch, than the earlier ones."""
    code, epoch = (rows.column(name) for name in ("node", "epoch"))
    named = np.array([bool(rows.text("node", at)) for at in np.append(earlier, since).tolist()], dtype=np.bool_)
    both = named[: len(earlier)] & named[len(earlier) :] & (code[earlier] != code[since])
    other: Flags = both | ((epoch[earlier] >= 0) & (epoch[since] > epoch[earlier]))
    return other


def _report(rows: Rows, found: Findings, acked: Sent, behind: Ints, witness: Ints) -> None:
    index = rows.column("index")

    def report(number: int) -> None:
        one, two = int(witness[number]), int(behind[number])
        queue = int(acked.queue[two])
        found.add(
            ELECTED_WITHOUT_ACKNOWLEDGED,
            f"{_leader(rows, int(acked.done[one]))} acknowledged {later.name(rows, int(acked.invoke[one]))} at offset "
            f"{int(acked.offset[one])} of queue {queue} by {facts.at_s(rows, int(acked.done[one]))}; then "
            f"{_leader(rows, int(acked.done[two]))} put {later.name(rows, int(acked.invoke[two]))}, which was sent at "
            f"{facts.at_s(rows, int(acked.invoke[two]))}, at offset {int(acked.offset[two])}: it was elected without "
            "what had been acknowledged.",
            *(int(index[at]) for at in (acked.invoke[one], acked.done[one], acked.invoke[two], acked.done[two])),
            queue=queue,
            offset=int(acked.offset[one]),
            message=int(rows.column("message")[acked.invoke[one]]),
        )

    acted_ns = facts.since_load_ns(rows, acked.done[behind])
    found.add_each(
        ELECTED_WITHOUT_ACKNOWLEDGED, np.arange(len(behind)), report, queues=acked.queue[behind], acted_ns=acted_ns
    )


def _leader(rows: Rows, at: int) -> str:
    node, epoch = rows.text("node", at), int(rows.column("epoch")[at])
    return facts.who(node or "the leader", epoch)
