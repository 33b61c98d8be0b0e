"""What logs with transactions promise, and all that can be wrong with them; names as Jepsen's, where it has one."""

from __future__ import annotations

from chaos.law import AnomalyKind, Harm, Promise, RunContext
from chaos.operations import Delivered
from chaos.workload import Use

INCONSISTENT_OFFSETS = "inconsistent-offsets"
DUPLICATE = "duplicate"
LOST_WRITE = "lost-write"
UNSEEN = "unseen"
G1A = "G1a"
PRECOMMITTED_READ = "precommitted-read"
POLL_SKIP = "poll-skip"
NONMONOTONIC_POLL = "nonmonotonic-poll"
MEMBER_POLL_SKIP = "member-poll-skip"
MEMBER_NONMONOTONIC_POLL = "member-nonmonotonic-poll"
INT_POLL_SKIP = "int-poll-skip"
INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
NONMONOTONIC_SEND = "nonmonotonic-send"
INT_NONMONOTONIC_SEND = "int-nonmonotonic-send"
INT_SEND_SKIP = "int-send-skip"
LSO_STALLED = "lso-stalled"
TORN = "torn"
RESURRECTED = "resurrected"
OFFSET_WITHOUT_OUTPUT = "offset-without-output"
OUTPUT_WITHOUT_OFFSET = "output-without-offset"
ELECTED_WITHOUT_ACKNOWLEDGED = "elected-without-acknowledged"

_CONTENT = (
    AnomalyKind(
        name=INCONSISTENT_OFFSETS,
        meaning="one offset of a queue was reported, or read, with two messages",
        headline=("Two messages stand at one offset", "{n} offsets hold two messages"),
        harm=Harm.DATA,
    ),
    AnomalyKind(
        name=DUPLICATE,
        meaning="one message stands at more offsets of its queue than it had sends that may have succeeded",
        headline=("A message stands at two offsets", "{n} messages stand at several offsets"),
        harm=Harm.CLIENTS,
    ),
    AnomalyKind(
        name=LOST_WRITE,
        meaning="a message that surely is in the queue was given to no reader, though one behind it was",
        headline=("A message was lost that readers went past", "{n} messages were lost that readers went past"),
        harm=Harm.DATA,
    ),
    AnomalyKind(
        name=UNSEEN,
        meaning="an acknowledged message was given to no reader, though its queue was read to its end",
        headline=("An acknowledged message was never seen", "{n} acknowledged messages were never seen"),
        harm=Harm.DATA,
    ),
)
_TRANSACTIONS = (
    AnomalyKind(
        name=G1A,
        meaning="a message was read whose every send surely failed, or whose transaction was aborted",
        headline=("An aborted message was read", "{n} aborted messages were read"),
        harm=Harm.DATA,
        decision=(Delivered,),
    ),
    AnomalyKind(
        name=PRECOMMITTED_READ,
        meaning="a message was read in its own transaction, or before anybody had asked to commit that",
        headline=("A message was read before its transaction was committed",),
        harm=Harm.CLIENTS,
        decision=(Delivered,),
    ),
    AnomalyKind(
        name=TORN,
        meaning="a message of a committed transaction is not in its queue, which was read to its end",
        headline=("A committed transaction is torn", "{n} messages of committed transactions are missing"),
        harm=Harm.DATA,
    ),
    AnomalyKind(
        name=RESURRECTED,
        meaning="a read that began after the abort of a transaction was acknowledged gave a message of it",
        headline=("A message of an aborted transaction came back", "{n} messages of aborted transactions came back"),
        harm=Harm.DATA,
        decision=(Delivered,),
    ),
    AnomalyKind(
        name=OFFSET_WITHOUT_OUTPUT,
        meaning="offsets of a transaction count that was aborted or is open, or whose messages are missing",
        headline=("Offsets of a transaction count without its messages",),
        harm=Harm.DATA,
    ),
    AnomalyKind(
        name=OUTPUT_WITHOUT_OFFSET,
        meaning="a transaction was committed, but its group was given an older offset afterwards",
        headline=("Messages of a transaction count without its offsets",),
        harm=Harm.DATA,
    ),
    AnomalyKind(
        name=LSO_STALLED,
        meaning="readers were held at the offset of a transaction that had to be over, and messages lie behind it",
        headline=("A transaction that never ended holds readers up",),
        harm=Harm.CLIENTS,
    ),
)
_ORDER = (
    AnomalyKind(
        name=POLL_SKIP,
        meaning="a reader went past a message between two polls, and had not been sent there",
        headline=("A reader went past a message", "Readers went past messages {n} times"),
        harm=Harm.CLIENTS,
    ),
    AnomalyKind(
        name=NONMONOTONIC_POLL,
        meaning="a reader was given an offset again, or one before it, and had not been sent back",
        headline=("A reader was sent back",),
        harm=Harm.CLIENTS,
    ),
    AnomalyKind(name=MEMBER_POLL_SKIP, meaning="as poll-skip, of a member of a consumer group", lawful=True),
    AnomalyKind(
        name=MEMBER_NONMONOTONIC_POLL, meaning="as nonmonotonic-poll, of a member of a consumer group", lawful=True
    ),
    AnomalyKind(
        name=INT_POLL_SKIP,
        meaning="one read, or the reads of one transaction, went past a message",
        headline=("One read left out a message", "{n} reads left out messages"),
        harm=Harm.CLIENTS,
        decision=(Delivered,),
    ),
    AnomalyKind(
        name=INT_NONMONOTONIC_POLL,
        meaning="one read, or the reads of one transaction, went back in a queue, or stood still",
        headline=("One read gave messages out of order",),
        harm=Harm.CLIENTS,
        decision=(Delivered,),
    ),
    AnomalyKind(
        name=NONMONOTONIC_SEND,
        meaning="a producer's message stands before one that it had sent, and had acknowledged, earlier",
        headline=("Messages of a producer changed places",),
        harm=Harm.CLIENTS,
    ),
    AnomalyKind(
        name=ELECTED_WITHOUT_ACKNOWLEDGED,
        meaning="a leader was elected that lacked an acknowledged message: it put later ones at that offset, or before",
        headline=("A replica was elected without what was acknowledged",),
        harm=Harm.DATA,
    ),
    AnomalyKind(
        name=INT_NONMONOTONIC_SEND,
        meaning="messages of one transaction stand in another order than it sent them in",
        headline=("Messages of a transaction changed places",),
        harm=Harm.CLIENTS,
    ),
    AnomalyKind(name=INT_SEND_SKIP, meaning="messages of others stand between two of one transaction", lawful=True),
)
PROMISE = Promise(
    name="log",
    place=91,
    meaning="Logs hold what was committed, once and in order, and readers are given all of it and nothing else.",
    counts={"log_sends": "acknowledged", "log_reads": "read"},
    anomalies=(*_CONTENT, *_TRANSACTIONS, *_ORDER),
)
#: What a run must have shown, and what is said where it has not.
SHOWN = (
    ("log_sends", "no send was acknowledged"),
    ("log_reads", "no reader was given a message"),
)


def no_logs(context: RunContext) -> str:
    """Say why nothing is owed; "" where it is."""
    return "" if {Use.LOGS, Use.TRANSACTIONS} & context.uses else f"no workload uses {Use.LOGS}"
