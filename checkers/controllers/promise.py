"""What the law *controllers* promises, and the names of what breaks it."""

from __future__ import annotations

from chaos.events import Applied, EntriesCut, RaftMembers, RaftRole, TermRaised, Vote
from chaos.law import AnomalyKind, Promise
from chaos.operations import Operation
from checkers._facts import promptness
from checkers._facts.raft import deserted, members, terms, votes
from checkers.controllers import kept, late_reads, learners, old, own_term

NEEDLESS_ELECTION, ENTRY_LOST, TERM_REGRESSION = "needless-election", "entry-lost", terms.TERM_REGRESSION

CUT_MISSTATED = "cut-misstated"

LATE_ELECTION, NEEDLESS_CHANGE = promptness.LATE_ELECTION, promptness.NEEDLESS_CHANGE

LOG_KEPT, OLD_LEADER = kept.LOG_KEPT, old.OLD_LEADER

LEADER_DESERTED = deserted.LEADER_DESERTED

MEMBERSHIP_JUMP, REFUSED_CHANGE = members.MEMBERSHIP_JUMP, "refused-change"

LATE_VOTE = learners.LATE_VOTE

UNSERVED, UNANSWERED = "change-unserved", "read-unanswered"

PROMISE = Promise(
    name="controllers",
    place=85,
    meaning="Controllers keep what they agreed on, elect nobody without a cause, and serve while a majority is well.",
    anomalies=(
        AnomalyKind(
            name=NEEDLESS_ELECTION,
            meaning="a leader or master was replaced, or sought, without any cause",
            headline=("A master was replaced without a cause", "{n} elections without a cause"),
            decision=(Applied,),
        ),
        AnomalyKind(
            name=LATE_ELECTION,
            meaning="a dead master was not replaced at once, or an elected one was informed late",
            headline=("A dead master was replaced too late",),
        ),
        AnomalyKind(
            name=NEEDLESS_CHANGE,
            meaning="a SyncStateSet was changed without any cause",
            headline=("A set of replicas was changed without a cause",),
            decision=(Applied,),
        ),
        AnomalyKind(
            name=ENTRY_LOST,
            meaning="a controller dropped an entry that was committed",
            headline=("A controller dropped a committed entry", "Controllers dropped {n} committed entries"),
            decision=(EntriesCut,),
        ),
        AnomalyKind(name=CUT_MISSTATED, meaning="a controller reported a dropped entry that does not exist"),
        AnomalyKind(
            name=TERM_REGRESSION,
            meaning="a controller's term fell within one life, or below one that it had led with a sound disk",
            headline=("The term of a controller went back",),
            decision=(RaftRole,),
        ),
        AnomalyKind(
            name=OLD_LEADER,
            meaning="a controller answered as the leader of a term when a later one was led already",
            headline=("A deposed controller answered as leader",),
            decision=(Operation,),
        ),
        AnomalyKind(
            name=LEADER_DESERTED,
            meaning="a controller turned to a candidate although it had just heard its leader",
            headline=("A controller left a leader that it had just heard",),
            decision=(RaftRole, TermRaised),
        ),
        AnomalyKind(
            name=votes.TWO_VOTES,
            meaning="a controller voted for two candidates of one term",
            headline=("A controller voted twice in one term",),
            decision=(Vote,),
        ),
        AnomalyKind(
            name=votes.VOTE_NOT_DURABLE,
            meaning="a controller gave a vote that its disk did not hold yet",
            headline=("A controller gave a vote that its disk did not hold",),
            decision=(Vote,),
        ),
        AnomalyKind(
            name=votes.UNELECTED_LEADER,
            meaning="a controller led without the votes of a majority",
            headline=("A controller led without the votes of a majority",),
            decision=(RaftRole,),
        ),
        AnomalyKind(
            name=own_term.EARLIER_TERM_COMMITTED,
            meaning="a leader committed what an earlier term had left by itself",
            headline=("A leader committed an entry of an earlier term by itself",),
            decision=(Applied,),
        ),
        AnomalyKind(name=LOG_KEPT, meaning="a controller kept more of its log than it needs"),
        AnomalyKind(
            name=MEMBERSHIP_JUMP,
            meaning="a change of the members that is not one step of one controller",
            headline=("The members of the controllers changed by more than one step",),
            decision=(RaftMembers,),
        ),
        AnomalyKind(name=REFUSED_CHANGE, meaning="a change of leader or members was refused, and nothing hindered it"),
        AnomalyKind(name=late_reads.LATE_READ, meaning="a controller answered a read late, and nothing hindered it"),
        AnomalyKind(name=LATE_VOTE, meaning="a controller that joined got its vote late, and nothing hindered it"),
        AnomalyKind(
            name=UNSERVED,
            meaning="no change of any object took effect for longer than the bound",
            headline=("No change of an object took effect for longer than permitted",),
        ),
        AnomalyKind(
            name=UNANSWERED,
            meaning="a controller answered no read for longer than the bound",
            headline=("A controller answered no read for longer than permitted",),
        ),
    ),
)
