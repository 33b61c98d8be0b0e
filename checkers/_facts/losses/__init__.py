"""Why records are gone that were acknowledged, read or confirmed, and whether the profile's weakness explains it.

A weaker profile excuses cuts, not messages. A record is gone because a new master's log lacked it; so the question is
how that replica came to lack it, and why it could be elected nevertheless:

* ``flush: async``: it had taken the record and crashed, and came back without it;
* ``acks`` of a number, or ``master``: it is none of the copies that the acknowledgement stood on;
* ``unclean``: it was elected although it was outside the SyncStateSet;
* ``min_in_sync: 1``: the one copy that the acknowledgement stood on was lost with its disk, or in a crash under
  asynchronous flush.

All else is a loss. Where replicas trace their logs, :mod:`.traced` answers it. Where they only report their roles to
polls, :mod:`.polled` does; where they report nothing, :mod:`.by_faults` goes by what faults hit, and says so.
"""

from checkers._facts.losses.contradictions import contradictions
from checkers._facts.losses.explain import explained
from checkers._facts.losses.explained import Lost
from checkers._facts.losses.lineage import Records
from checkers._facts.losses.permitted import UNDECIDED, Cuts, cuts, cuts_of_read, keeps, keeps_read, note
from checkers._facts.losses.reads import COLUMNS, CONFIRMS, EVIDENCE, TAKEN, TERMS, TERMS_OF_RUN

__all__ = [
    "COLUMNS",
    "CONFIRMS",
    "EVIDENCE",
    "TAKEN",
    "TERMS",
    "TERMS_OF_RUN",
    "UNDECIDED",
    "Cuts",
    "Lost",
    "Records",
    "contradictions",
    "cuts",
    "cuts_of_read",
    "explained",
    "keeps",
    "keeps_read",
    "note",
]
