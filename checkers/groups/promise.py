"""What the law *groups* promises, and the names of what breaks it."""

from __future__ import annotations

from chaos.events import EntriesCut, GroupAcked, GroupAppended, GroupFenced, RaftMembers, RaftRole, TermRaised, Vote
from chaos.law import AnomalyKind, Harm, Promise
from checkers._facts.raft import deserted, members, terms, votes
from checkers._facts.storage.memberships import PREFIX

TWO_LEADERS = PREFIX + "two-leaders"
ENTRY_LOST, ENTRIES_DIFFER = PREFIX + "entry-lost", PREFIX + "entries-differ"
ACKED_UNSYNCED, DISK_GIVEN_UP = PREFIX + "acked-unsynced", "disk-given-up"
APPEND_MISPLACED, WIPED_VOTER = "append-misplaced", PREFIX + "wiped-voter"

PROMISE = Promise(
    name="groups",
    place=88,
    meaning="Each group of a storage cluster elects one leader a term, keeps what is committed, and applies one log.",
    anomalies=(
        AnomalyKind(
            name=TWO_LEADERS,
            meaning="two members led a group in one term",
            headline=("A group had two leaders in one term",),
            decision=(RaftRole,),
        ),
        AnomalyKind(
            name=PREFIX + votes.UNELECTED_LEADER,
            meaning="a member led a group without the votes of a majority",
            headline=("A group was led without the votes of a majority",),
            decision=(RaftRole,),
        ),
        AnomalyKind(
            name=PREFIX + votes.TWO_VOTES,
            meaning="a member voted for two candidates of one term",
            headline=("A member of a group voted twice in one term",),
            decision=(Vote,),
        ),
        AnomalyKind(
            name=PREFIX + votes.VOTE_NOT_DURABLE,
            meaning="a member gave a vote that its disk did not hold yet",
            headline=("A vote was given that no disk held",),
            decision=(Vote,),
        ),
        AnomalyKind(
            name=PREFIX + terms.TERM_REGRESSION,
            meaning="a member's term fell within one life, or below one that it had led with a sound disk",
            headline=("The term of a member of a group went back",),
            decision=(RaftRole,),
        ),
        AnomalyKind(
            name=PREFIX + deserted.LEADER_DESERTED,
            meaning="a member turned to a candidate although it had just heard its leader",
            headline=("A member left a leader that it had just heard",),
            decision=(RaftRole, TermRaised),
        ),
        AnomalyKind(
            name=PREFIX + members.MEMBERSHIP_JUMP,
            meaning="a change of the members that is not one step of one member",
            headline=("The members of a group changed by more than one step",),
            decision=(RaftMembers,),
        ),
        AnomalyKind(
            name=ENTRY_LOST,
            meaning="a member dropped an entry that it had applied",
            headline=("A store dropped an entry that was committed", "Stores dropped {n} committed entries"),
            harm=Harm.DATA,
            decision=(EntriesCut,),
        ),
        AnomalyKind(
            name=ENTRIES_DIFFER,
            meaning="two members applied different entries at one index of their log, or one entry differently",
            headline=("Two stores applied different logs of one group",),
            harm=Harm.DATA,
            decision=(GroupFenced, GroupAppended),
        ),
        AnomalyKind(
            name=APPEND_MISPLACED,
            meaning="records were added, or a fence was answered, elsewhere than where the group's bytes ended",
            headline=("The bytes of a group do not join",),
            harm=Harm.DATA,
            decision=(GroupAppended, GroupFenced),
        ),
        AnomalyKind(
            name=WIPED_VOTER,
            meaning="a store that had begun on an empty disk voted as the member that it was before",
            headline=("A store without its disk voted as if it had it",),
            harm=Harm.DATA,
            decision=(Vote,),
        ),
        AnomalyKind(
            name=ACKED_UNSYNCED,
            meaning="records were acknowledged that the disks of no majority held",
            headline=("Records were acknowledged before a majority's disks held them",),
            harm=Harm.DATA,
            decision=(GroupAcked,),
        ),
        AnomalyKind(
            name=DISK_GIVEN_UP,
            meaning="a store found its disk damaged and gave it up, and no fault had taken anything from it",
            headline=("A store gave up a sound disk",),
        ),
    ),
    counts={
        "group_terms": "terms of groups that had a leader",
        "group_entries": "entries that stores applied",
        "group_synced_acks": "acknowledgements that a majority's disks held",
    },
)
