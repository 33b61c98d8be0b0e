"""Whether a controller answers for a term that is over.

Who leads a later term was elected by a majority, and every majority that an older leader would have to hear, or has a
lease from, has one of its members (Ongaro's thesis, 6.4). So an older leader answers nothing that is asked from then
on, whether or not its answer happens to be right.
"""

from __future__ import annotations

import numpy as np

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers._facts.clients import calls
from checkers._facts.run import at_s, since_load_ns

OLD_LEADER = "old-leader-answered"


def answers_of_old_leaders(rows: Rows, found: Findings) -> None:
    """Report reads that were asked when somebody had begun to lead a later term, and were answered by a controller that
    still led an older one. For runs in which one clock orders the rows of all nodes."""
    raft, reads = rows.where(kind="trace", f="raft"), calls(rows, "read")
    index, term, node = rows.column("index"), rows.column("epoch"), rows.column("node")
    leads = np.array([role == "leader" for role in rows.words("role", raft)], dtype=np.bool_)
    leaders = raft[leads]
    asked, done = reads.invoke[reads.ok], reads.done[reads.ok]
    if len(leaders) < 2 or not len(done):
        return
    newest = np.append(-1, np.maximum.accumulate(term[leaders]))[np.searchsorted(leaders, asked)]
    for code in np.unique(node[leaders]).tolist():
        mine = np.flatnonzero(node[raft] == code)
        place = np.searchsorted(raft[mine], done) - 1
        last = raft[mine[np.maximum(place, 0)]]
        still = (node[done] == code) & (place >= 0) & leads[mine[np.maximum(place, 0)]] & (last < asked)
        old = np.flatnonzero(still & (term[last] < newest))

        def report(item: int, last: np.ndarray = last) -> None:
            later = int(leaders[(leaders < asked[item]) & (term[leaders] == newest[item])][0])
            found.add(
                OLD_LEADER,
                f"{rows.text('node', done[item])} answered at {at_s(rows, done[item])} as the leader of term "
                f"{int(term[last[item]])} what it was asked at {at_s(rows, asked[item])}, but "
                f"{rows.text('node', later)} led term {int(newest[item])} since {at_s(rows, later)}.",
                *(int(index[at]) for at in (last[item], later, asked[item], done[item])),
            )

        found.add_each(OLD_LEADER, old, report, acted_ns=since_load_ns(rows, done[old]))
