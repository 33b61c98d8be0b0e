"""What Raft's golden pages can do and show. Entries are written ``index:term=data``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from chaos.node import Env
from reference.raft.log import unpack_entries
from reference.raft.member import Raft
from reference.raft.members import unpack_members
from reference.raft.policy import RaftPolicy
from reference.raft.state import CANDIDATE, FOLLOWER, LEADER
from reference.raft.state_machine import Proposed
from reference.wire.codes import Request
from tests.reference.raft_member import Member
from tests.reference.step_world import Held, StepScenario

ELECTION, HEARTBEAT = "raft.election", "raft.heartbeat"
_MOST_TRIES = 5


def entry(index: int, term: int, data: bytes) -> str:
    members = unpack_members(data)
    if members is not None:
        learners = f" and learner {' '.join(members.learners)}" if members.learners else ""
        return f"{index}:{term}=({' '.join(members.voters)}{learners})"
    return f"{index}:{term}" + (f"={data.decode()}" if data else "")


class RaftScenario(StepScenario):
    """Members ``a``, ``b``, ``c``, …, all with this Raft."""

    def __init__(self, raft: type[Raft] = Raft, raft_policy: type[RaftPolicy] = RaftPolicy) -> None:
        super().__init__()
        self.raft_class, self.policy = raft, raft_policy

    def say(self, held: Held) -> str:
        fields = {key: int(value) for key, value in held.message.fields.items()}
        code = Request(held.message.code)
        return _answer(code, fields) if "answer" in fields else _request(code, fields, held.message.body)

    def row(self, node: str, f: str, value: Mapping[str, object]) -> str:
        if f == "applied":
            data = value["data"]
            assert isinstance(data, bytes)
            return f"{node} applies {entry(int(str(value['position'])), int(str(value['epoch'])), data)}"
        if f == "entries_cut":
            return f"{node} drops its entries {value['position']} to {value['last']}"
        if f in ("members", "term_raised", "vote"):  # the entry says who, and a vote from whom the term came
            return ""
        if value["role"] == FOLLOWER:
            return f"{node} follows {value['leader'] or 'nobody'} in term {value['epoch']}"
        if value["role"] == CANDIDATE:
            return f"{node} is a candidate, its term is {value['epoch']}"
        return f"{node} leads in term {value['epoch']}"

    def _raft(self, node: str) -> tuple[Raft, Env]:
        return self.world.nodes[node].raft, self.world.envs[node]

    # Commands

    def do_members(self, *names: str, snapshot: str = "1000", piece: str = "65536", batch: str = "256") -> None:
        """Start these. Each makes a snapshot after so many entries, sends so many bytes of one at a time, and so many
        entries in an append."""

        class Scripted(Member):
            raft_class, policy = self.raft_class, self.policy

        def make(name: str) -> Member:
            return Scripted(name, list(names), int(snapshot), piece_bytes=int(piece), append_entries=int(batch))

        self.begin({name: lambda name=name: make(name) for name in names})

    def do_timeout(self, node: str) -> None:
        """It hears no leader for an election timeout."""
        raft, _ = self._raft(node)
        assert raft.role != LEADER
        deadline = raft.deadline_ns
        for _ in range(_MOST_TRIES):
            self.do_fire(node, ELECTION)
            if raft.deadline_ns != deadline:
                return
        raise ValueError(f"{node} does not begin an election")

    def do_heartbeat(self, node: str) -> None:
        self.do_fire(node, HEARTBEAT)

    def do_elect(self, node: str) -> None:
        """Make it the leader, without showing how."""
        self.do_timeout(node)
        self.do_deliver()
        self.lines = [f"{it} {_state(self._raft(it)[0])}" for it in self.world.names() if it in self.world.envs]

    def do_propose(self, node: str, *values: str) -> None:
        raft, env = self._raft(node)

        for value in values:

            def then(env: Env, outcome: object, index: int, value: str = value) -> None:
                self.tell_rows()
                ended = f"committed at {index}" if index >= 0 else "outcome unknown"
                self.lines.append(f"  proposal {value} at {node}: {ended}")

            if raft.is_handing_over:
                self.lines.append(f"  proposal {value} at {node}: not taken while it hands over")
            else:
                raft.propose(env, value.encode(), then)
        self.settle()

    def do_add(self, node: str, name: str) -> None:
        """As the leader, take in a learner, which is started as one that knows the members of the beginning."""
        self._change(node, f"{name} as a learner", lambda raft, env, then: raft.add_learner(env, name, then))

    def do_remove(self, node: str, name: str) -> None:
        self._change(node, f"no {name}", lambda raft, env, then: raft.remove(env, name, then))

    def _change(self, node: str, what: str, change: Callable[[Raft, Env, Proposed], None]) -> None:
        raft, env = self._raft(node)
        if reason := raft.why_no_change():
            self.lines.append(f"  {node} can't change the members: {reason}")
            return

        def then(env: Env, outcome: object, index: int) -> None:
            self.tell_rows()
            self.lines.append(f"  {what}: {f'committed at {index}' if index >= 0 else 'outcome unknown'}")

        change(raft, env, then)
        self.settle()

    def do_transfer(self, node: str, target: str) -> None:
        """Have the target lead."""
        raft, env = self._raft(node)

        def then(env: Env, done: bool) -> None:
            self.tell_rows()
            self.lines.append(f"  transfer at {node}: {'it leads no more' if done else 'given up'}")

        raft.transfer(env, target, then)
        self.settle()

    def do_read(self, node: str) -> None:
        raft, env = self._raft(node)

        def then(env: Env, safe: bool) -> None:
            self.tell_rows()
            self.lines.append(f"  read at {node}: {f'answered after {raft.applied}' if safe else 'refused'}")

        raft.read(env, then)
        self.settle()

    def do_show(self) -> None:
        """Roles and logs; what follows ``|`` isn't on the disk yet."""
        for name in self.world.names():
            if name in self.world.envs:
                raft, _ = self._raft(name)
                self.lines.append(f"{name} {_state(raft)}, commit {raft.commit}, log {_log(raft)}")
            else:
                self.lines.append(f"{name} is down")


def _state(raft: Raft) -> str:
    return {
        LEADER: f"leads in term {raft.term}",
        FOLLOWER: f"follows {raft.leader or 'nobody'} in term {raft.term}",
        CANDIDATE: f"is a candidate, its term is {raft.term}",
    }[raft.role]


def _log(raft: Raft) -> str:
    log = raft.log
    words = [f"[snapshot up to {entry(log.snapshot_index, log.snapshot_term, b'')}]"] if log.snapshot_index else []
    for index in range(log.first, log.last + 1):
        words += ["|"] if index == log.durable + 1 else []
        words.append(entry(index, log.entry(index).term, log.entry(index).data))
    return " ".join(words) or "empty"


def _request(code: Request, fields: Mapping[str, int], body: bytes) -> str:
    term = fields["term"]
    if code in (Request.RAFT_PRE_VOTE, Request.RAFT_VOTE):
        kind = "pre-vote" if code == Request.RAFT_PRE_VOTE else "vote"
        why = ", as the leader wants it" if "transfer" in fields else ""
        return f"{kind} request for term {term}, last entry {entry(fields['last'], fields['last_term'], b'')}{why}"
    if code == Request.RAFT_READ:
        return f"read-index request #{fields['number']}"
    if code == Request.RAFT_TIMEOUT_NOW:
        return f"stand for election at once, term {term}"
    if code == Request.RAFT_SNAPSHOT:
        if len(body) < fields["size"]:
            upto = f"snapshot of term {term} up to {entry(fields['index'], fields['snapshot_term'], b'')}"
            end = fields["offset"] + len(body)
            piece = f"bytes {fields['offset']} to {end}" if body else f"are there more than {fields['offset']} bytes"
            return f"{upto}, {piece} of {fields['size']}{'' if body else '?'}"
        state = ", ".join(body.decode().split())
        return f"snapshot of term {term} up to {entry(fields['index'], fields['snapshot_term'], b'')}: {state}"
    prev = fields["prev"]
    entries = [entry(prev + at, it.term, it.data) for at, it in enumerate(unpack_entries(body), 1)]
    after = entry(prev, fields["prev_term"], b"")
    sent = f"append of term {term} after {after}: {' '.join(entries)}," if entries else f"heartbeat of term {term},"
    return f"{sent} commit {fields['commit']}{_round(fields)}"


def _answer(code: Request, fields: Mapping[str, int]) -> str:
    term = fields["term"]
    if code in (Request.RAFT_PRE_VOTE, Request.RAFT_VOTE):
        kind = "pre-vote" if code == Request.RAFT_PRE_VOTE else "vote"
        return f"{kind} {'granted' if fields['granted'] else 'refused'}, term {term}"
    if code == Request.RAFT_READ:
        read = f"read index {fields['index']}" if fields["index"] >= 0 else "no read index"
        return f"{read} #{fields['number']}"
    if code == Request.RAFT_SNAPSHOT:
        return f"holds {fields['held']} bytes up to entry {fields['index']}{_round(fields)}"
    if fields["ok"]:
        return f"match {fields['match']}{_round(fields)}"
    return f"rejected, term {term}" if fields["prev"] < 0 else f"rejected, try after {fields['match']}"


def _round(fields: Mapping[str, int]) -> str:
    """Up to which read, by its number, a message or its answer confirms the leader."""
    return f", confirms read {fields['round']}" if fields["round"] else ""
