"""All that a driver, a fault, a workload, a law, a deployment or a system under test may use, on one page.

Every name here is defined in the module that it is imported from, and explained there in full; `docs/plugins/` says how
they go together. Other names of these modules may change at any time. Importing this page loads the standard library
only; the names for laws and goals load numpy when they are used first. Kits for tests of plug-ins are in
:mod:`chaos.testing`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from chaos.delivery_services import CanDeliver, DeliveryMember, DeliveryProducer
from chaos.deployment import (
    CanAddNodes,
    CanHangIo,
    CanHarmDisks,
    CanKill,
    CanLimitDescriptors,
    CanLimitMemory,
    CanLoseUnsynced,
    CanPause,
    CanProbe,
    CanReadFiles,
    CanReplaceNodes,
    CanRollBackDisks,
    CanRuleDisks,
    CanRuleLinks,
    CanRuleRequests,
    CanSkewClocks,
    CanSlowProcessors,
    CanTearWrites,
    CanTellCuts,
    CanTerminate,
    CanWipe,
    Deployment,
)
from chaos.driver import (
    TIER_FAULT,
    CanAddBrokers,
    CanBreakTier,
    CanChangeControllers,
    CanDrain,
    CanForceSwitch,
    CanFrame,
    CanReadThroughNodes,
    CanRemoveBrokers,
    CanSetUp,
    CanSwitch,
    CanTransferLeader,
    CanUpgrade,
    Client,
    ClientCommand,
    ClusterSpec,
    ClusterView,
    Connection,
    DeclaresExposure,
    DeclaresGaps,
    Dials,
    Disconnected,
    Driver,
    Evidence,
    Exposure,
    HasClientLibrary,
    HasClientPrograms,
    Mutant,
    Network,
    NoOptions,
    Profile,
    ReadsFiles,
    Record,
    ReplicaGroup,
    TellsEvents,
    TierEffect,
    TierRequest,
    TierRule,
)
from chaos.effects.disks import DiskRule, FailReads, FailSync, Full, SlowDisk, Tear
from chaos.effects.links import (
    HARNESS,
    Corrupt,
    Delay,
    Drop,
    Duplicate,
    LinkRule,
    Pass,
    Reach,
    Reorder,
    Reset,
    SlowClose,
    Stall,
    Throttle,
)
from chaos.effects.requests import DelayAnswers, LoseAnswers, RefuseRequests, SwallowRequests
from chaos.errors import BadInput, ChaosError, DamagedHistory, DeploymentError, HostLost, MachineError
from chaos.events import Event, event
from chaos.experiment.targets import CLIENT, Target, choose, choose_ends, choose_led
from chaos.fault import (
    Achieves,
    Acts,
    Effect,
    Fault,
    FitsSystems,
    Injection,
    NotNow,
    Probes,
    Rest,
    Undo,
    Verb,
    World,
    each,
    pressed,
    together,
)
from chaos.frames import CodecFrames, Frame, Frames, Framing
from chaos.history.run_meta import RunMeta
from chaos.log_services import CanHaveGroups, CanReadLogs, CanTransact, GroupMember, LogReader, Transactions
from chaos.node import Codec, Disk, DiskFull, Env, Malformed, Message, Node, NodeSpec
from chaos.ops import Answer, Delivered, Failed, OpType, QueueRef, Unknown, message_id
from chaos.plain import PlainCodec, PlainMessage
from chaos.program import Answers, LogSays, PortAccepts, Program
from chaos.recipe import Recipe, Step
from chaos.run.probes import must_answer, severance, silence
from chaos.scrub import Damage, Look, Piece, Scrubber
from chaos.scrub import Kind as DamageKind
from chaos.services import (
    FIRST_SET,
    FIRST_TEXT,
    FIRST_VERSION,
    CanBeOperated,
    CanCreateTopics,
    CanDeleteTopics,
    CanHoldObjects,
    CanHoldReads,
    CanKeepMetadata,
    CanLendLocks,
    DeletesTopics,
    HasLimits,
    Limits,
    Locks,
    Metadata,
    Objects,
    Operator,
    Topics,
    WaitingReads,
    set_key,
    text_key,
)
from chaos.transaction_worker import TransactionWorker
from chaos.verdict import Anomaly, RunVerdict, Validity, Verdict
from chaos.workload import Load, Outcome, Use, Worker, Workload, body_hash, next_message, note

if TYPE_CHECKING:  # not to hide a circle: numpy takes longer to load than all the rest of this page
    from chaos.findings import Findings, decide
    from chaos.goal import Goal
    from chaos.law import AnomalyKind, Deferred, Harm, Key, Law, Partial, Promise, Rows, RunContext

__all__ = [  # noqa: RUF022 - in the order in which a reader needs them
    # A driver: one system under test
    "Driver",  # what a driver implements
    "Exposure",  # how long a system exposes what it acknowledged, and what readers are given
    "DeclaresExposure",  # the power to say so
    "ReadsFiles",  # the power to say which of its evidence is read from nodes' files
    "DeclaresGaps",  # the power to say that offsets need not follow one another
    "CanSetUp",  # something is made once in the system before clients come
    "Evidence",  # what a driver can report of a run besides operations
    "Profile",  # which promises the system is set up to keep
    "ClusterSpec",  # the system's servers, in the order of their start
    "NodeSpec",  # one server: its name, role, package and options, or its program
    "Program",  # a server that is a program of somebody else's: command, files, ports, readiness
    "PortAccepts",  # it is ready once a port accepts
    "LogSays",  # it is ready once a line of its log matches
    "Answers",  # it is ready once the driver's own probe says so
    "Recipe",  # how `stormproof install` builds the programs of a system by others
    "Step",  # one command of a recipe
    "Scrubber",  # judges what the system keeps on disks, for `stormproof scrub`
    "Piece",  # what it judges as one, a queue say
    "Look",  # what one look at a piece has found
    "Damage",  # one place that is wrong
    "DamageKind",  # in which way it is
    "ClusterView",  # who is what right now
    "ReplicaGroup",  # copies of the same data: replicas, leader, epoch, who is in sync
    "Network",  # how a driver reaches nodes
    "Dials",  # how it reaches those that are programs: by streams of bytes
    "Connection",  # one client's connection with one node
    "Disconnected",  # a connection broke, or could not be opened
    "Message",  # what a request or an answer of a system has to say of itself
    "Codec",  # messages to bytes of the wire protocol and back
    "Record",  # takes a row for the history
    "HARNESS",  # the name of the client that no fault touches
    "Mutant",  # a planted bug
    "NoOptions",  # the options of a plug-in that has none
    # What clients do, and how it ends
    "Client",  # a client of queues
    "QueueRef",  # one queue of the run
    "Answer",  # what an operation learned
    "Delivered",  # one message as it was read
    "Failed",  # the operation did not happen and never will
    "Unknown",  # it is unknown whether the operation happened
    "OpType",  # invoke, ok, fail, info
    "WaitingReads",  # a client of queues whose reads may wait
    "LogReader",  # a client with a position in each of its queues
    "GroupMember",  # a member of a consumer group
    "DeliveryProducer",  # a producer of delays, transactions and batches
    "DeliveryMember",  # a member of a group that locks queues and sends messages back
    "Transactions",  # a producer with a transactional id
    "Objects",  # a client of a key-value store
    "Topics",  # a client that creates topics
    "DeletesTopics",  # one that deletes them, too
    "Operator",  # who switches masters with the system's admin tool
    "Metadata",  # a client of metadata, and of the views that nodes have of it
    "Limits",  # a client that asks for what lies at the limits of the system
    "Locks",  # a client of locks that are lent for a time
    "text_key",  # the key of an object's text
    "set_key",  # the key of an object's set
    "FIRST_TEXT",  # the text of a new object
    "FIRST_SET",  # the set of a new object
    "FIRST_VERSION",  # the version of a new object's set
    # Optional powers of a driver
    "CanSwitch",  # a planned change of the leader
    "CanForceSwitch",  # a change to a leader that need not be in sync
    "CanAddBrokers",  # brokers join in mid-run
    "CanTransferLeader",  # the controllers' leader hands over to another one
    "CanChangeControllers",  # controllers leave their group and join it again
    "CanDrain",  # a node gives up all that it serves or holds
    "CanReadThroughNodes",  # each node answers reads from its own copy
    "CanRemoveBrokers",  # brokers leave for good
    "CanHoldReads",  # nodes hold reads at the end of a queue
    "CanReadLogs",  # clients read several queues from positions
    "CanHaveGroups",  # consumer groups have members
    "CanDeliver",  # messages are delayed, decided by transactions, handed to groups, and come back
    "CanTransact",  # transactions over several queues
    "CanHoldObjects",  # the system is a key-value store as well
    "CanCreateTopics",  # clients create topics in mid-run
    "CanDeleteTopics",  # clients delete topics in mid-run
    "CanBeOperated",  # operators switch masters with a tool of the system's
    "CanKeepMetadata",  # the system keeps metadata in a log that other nodes follow
    "CanLendLocks",  # the system lends locks
    "HasLimits",  # what the system takes, gives and refuses is documented
    "CanFrame",  # requests and answers can be told apart in bytes
    "Framing",  # the object that does so
    "Frames",  # what reads one connection
    "Frame",  # one request or answer
    "CodecFrames",  # what reads it where messages have a codec
    "CanUpgrade",  # nodes can run another version
    "CanBreakTier",  # the object store handles requests wrongly on demand
    "TierRule",  # which requests it gets wrong
    "TierEffect",  # in what way
    "TierRequest",  # the kinds of requests
    "TIER_FAULT",  # the trace event of a request that went wrong so
    "HasClientPrograms",  # has clients that are programs, which write their operations as JSON lines
    "HasClientLibrary",  # has a program that uses the system's client library in many ways
    "ClientCommand",  # how such a client is started
    "TellsEvents",  # knows all events that its nodes trace
    # A workload: what clients do
    "Workload",  # what a workload implements
    "Use",  # what it operates on: queues, objects
    "Load",  # what the run gives to it
    "Worker",  # records each operation of one logical process
    "Outcome",  # how an operation ended
    "TransactionWorker",  # records the transactions of one producer
    "body_hash",  # the identity of a message's content
    "message_id",  # the identity of a message
    "next_message",  # a new message's id
    "note",  # remember the highest offset that was acknowledged or read
    # A fault: what is done to the system
    "Fault",  # what a fault implements
    "Injection",  # one planned injection: targets, undo steps, effects
    "Effect",  # what a fault may do to a node, as laws know it
    "Undo",  # one undo step
    "Verb",  # the kinds of undo steps
    "pressed",  # the subject of an undo step that ends pressure on a machine
    "World",  # what an injection may act upon
    "NotNow",  # it can't be done at this moment; it will be tried again
    "Acts",  # a fault that goes on acting while it lasts
    "Rest",  # how such a fault sleeps
    "Probes",  # a fault whose effect can be seen from outside
    "Achieves",  # a fault that has a goal
    "FitsSystems",  # a fault or a workload with an option that may not suit a system
    "each",  # act on targets one after the other
    "together",  # act on targets at once
    "Target",  # words that stand for nodes
    "CLIENT",  # the word for all clients
    "choose",  # a target word to nodes
    "choose_ends",  # the same, for faults on links
    "choose_led",  # one of the groups that have a leader
    "silence",  # probe: which nodes answer
    "severance",  # probe: which connections work
    "must_answer",  # probe: refuse a node that is down
    # What faults do to links and disks
    "LinkRule",  # what happens to bytes from some names to others
    "Pass",  # nothing happens to them
    "Drop",  # bytes wait and dials hang
    "Delay",  # bytes come late
    "Reset",  # connections break
    "Stall",  # a connection is held up now and then
    "Throttle",  # so many bytes a second at most
    "Corrupt",  # a bit is flipped
    "SlowClose",  # the end of a connection is passed on late
    "Duplicate",  # bytes come twice, where that can be
    "Reorder",  # bytes are overtaken
    "LoseAnswers",  # answers to requests of a kind are lost
    "RefuseRequests",  # requests of a kind are answered with an error
    "DelayAnswers",  # answers to them come late
    "SwallowRequests",  # they vanish
    "DiskRule",  # what happens to a node's disk
    "Full",  # no room
    "SlowDisk",  # operations take longer
    "FailSync",  # syncs fail
    "FailReads",  # reads fail
    "Tear",  # a write is cut short
    # A deployment: where nodes run, and what can be done to them there
    "Deployment",  # what a deployment implements
    "CanKill",  # crash a node
    "CanTerminate",  # ask a node to end
    "CanPause",  # stop a node's execution
    "CanWipe",  # empty a node's disk
    "CanAddNodes",  # start one more node
    "CanRuleLinks",  # rule links
    "CanRuleRequests",  # rule requests of clients, by kind
    "CanReplaceNodes",  # start a node in another version
    "CanRuleDisks",  # rule disks
    "CanLoseUnsynced",  # crash a node and lose what it had not synced
    "CanTearWrites",  # the same, but keep parts of it
    "CanHarmDisks",  # change bytes that were durable
    "CanRollBackDisks",  # put an old copy of a disk in its place
    "CanProbe",  # see from outside whether nodes answer
    "CanTellCuts",  # distinguish a connection that is cut from one that fails
    "Reach",  # what became of a connection that was tried
    "CanReadFiles",  # can read files of a node, alive or dead
    "CanSkewClocks",  # set a node's clocks
    "CanSlowProcessors",  # take processor time
    "CanLimitMemory",  # take memory
    "CanLimitDescriptors",  # take file descriptors
    "CanHangIo",  # let syncs hang
    # A node of a system that is written as step functions
    "Node",  # what a node implements
    "Env",  # all that it may do
    "Disk",  # its private directory
    "DiskFull",  # its disk has no room
    "Malformed",  # a message makes no sense to it
    "PlainMessage",  # a message for systems that have no protocol of their own
    "PlainCodec",  # its frames
    "Event",  # what it did or learned, as it traces it
    "event",  # makes a class of fields an event
    # A law: what the history must satisfy
    "Law",  # what a law derives from: what it reads, `examine`, `judge`
    "Promise",  # the law's name, what it demands, what it can find
    "AnomalyKind",  # something that it can find
    "Harm",  # how bad that is, for the title of a run
    "Key",  # whose rows it needs together: of a queue, a node, a group, an object, the run
    "Rows",  # the rows that it sees; their classes are in chaos.events and chaos.operations
    "Findings",  # collects what it finds in one shard
    "Partial",  # what that comes to
    "Deferred",  # what takes long, and is left to `settle`
    "decide",  # judge as most laws do
    "RunContext",  # what is known of a run besides its rows
    "RunMeta",  # what was tested, what was promised, on what evidence: run.json
    "Goal",  # what a storm should reach sometimes
    "Verdict",  # what a law decided
    "Validity",  # VALID, INVALID, UNKNOWN, NOT APPLICABLE
    "Anomaly",  # one violation, with its evidence
    "RunVerdict",  # all laws together, for one run: verdict.json
    # Errors of the harness
    "ChaosError",  # all of them
    "BadInput",  # what was asked for is wrong
    "DeploymentError",  # nodes can't be started or reached
    "HostLost",  # a host is gone
    "MachineError",  # this machine lacks something
    "DamagedHistory",  # a recorded run is damaged
]

#: Names that need numpy, and those of the law contract that are refused by a sentence: where each is to be found.
_OF_LAWS = {
    **dict.fromkeys(
        ("AnomalyKind", "Deferred", "Harm", "Key", "Law", "Partial", "Promise", "Rows", "RunContext"), "chaos.law"
    ),
    **dict.fromkeys(("Needs", "Reads", "Sieve"), "chaos.law"),
    **dict.fromkeys(("Findings", "decide"), "chaos.findings"),
    "Goal": "chaos.goal",
}


def __getattr__(name: str) -> Any:
    """Return a name for laws or goals, imported only when it is asked for: their modules need numpy."""
    if name not in _OF_LAWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_OF_LAWS[name]), name)
