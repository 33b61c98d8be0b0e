"""The columns of a history: one schema for every kind of row. ``docs/history.md`` says what each kind of row holds."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """Who reports a row. Its kind and ``f`` together say what its columns mean."""

    OP = "op"  # a client's operation
    TRACE = "trace"  # what a node did or learned, as it says itself
    POLL = "poll"  # a snapshot of one node's state, asked for by the harness
    FAULT = "fault"  # an injection or its undo
    FINAL = "final"  # content of a replica or of the tier after recovery
    HARNESS = "harness"  # phases of the run, lag of the harness itself


#: Whole numbers; -1 where a row has none.
INTEGERS = (
    "index",  # dense from 0 in the order of recording; trace rows of processes get theirs when they are read
    "time_ns",  # monotonic, of the one recorder (of the machine, for trace rows of processes)
    "op",  # operations: the index of the invocation that this row belongs to
    "incarnation",  # which life of the node, from 1
    "step",  # which step of that life, from 1: (incarnation, step, index) orders the rows of one node
    "epoch",  # master epoch, or Raft term
    "queue",  # dense number of the queue
    "offset",  # queue offset
    "position",  # byte position in the commit log, or index in the controllers' log
    "message",  # id of the message: queue << 40 | sequence
    "hash",  # identity of the content: chaos.workload.body_hash
    *(REPEATED := ("began_ns", "began_offset", "began_value")),  # on the row that ends an operation: of its beginning
)
#: Short words that repeat; "" where a row has none.
WORDS = ("kind", "type", "f", "process", "node")
#: JSON object, or "".
VALUE = "value"
COLUMNS = (*INTEGERS, *WORDS, VALUE)
#: What a caller of the recorder gives for a row. Histories of formats 1 and 2 have no more, nor have those that other
#: programs recorded.
GIVEN = tuple(name for name in COLUMNS if name not in REPEATED)
#: Of shards of less than a queue alone: whether a row stands there beside the shard's own ones.
BESIDE = "beside"
