"""Whether a member turned to a candidate although it had just heard its leader.

Who has heard a leader within an election timeout ignores votes that are asked for, unless the leader itself wants
another one (Ongaro's thesis, 4.2.3). A lease counts on that (6.4): as long as it lasts, no majority elects anybody
else. So each member that does otherwise has broken a promise, whether or not an old leader answers a read
meanwhile.
"""

from __future__ import annotations

from chaos.findings import Findings
from chaos.shard_rows import Rows
from checkers._facts.raft.group import RaftGroup
from checkers._facts.run import at_s

LEADER_DESERTED = "leader-deserted"


def too_early(rows: Rows, found: Findings, group: RaftGroup) -> None:
    """Terms that were raised by a candidate too soon after the leader was heard, by the member's own clock."""
    for at in group.rows(rows, "term_raised").tolist():
        value = rows.value(at)
        silence, timeout = value.get("silence_ms"), value.get("election_ms")
        if silence is None or value.get(
            "transfer"
        ):  # it never heard a leader, or the leader itself asks for another one
            continue
        if not isinstance(silence, int) or not isinstance(timeout, int):
            found.gap(f"{rows.text('node', at)} does not report as a number how long it ignores candidates, or did")
        elif silence < timeout:
            found.add(
                group.prefix + LEADER_DESERTED,
                f"{rows.text('node', at)} followed {value.get('by', 'a candidate')} into term "
                f"{int(rows.column('epoch')[at])} at {at_s(rows, at)}, {silence} ms after it had heard its leader: it "
                f"has to ignore candidates for {timeout} ms, unless the leader asks for another one.",
                int(rows.column("index")[at]),
            )
