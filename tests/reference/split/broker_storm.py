"""A broker before a group that loses leaders, entries and answers at random, and its owner in the end."""

from __future__ import annotations

from random import Random
from typing import Any

from reference.broker.records import decode_all
from reference.split.requests import (
    AppendAnswer,
    AppendRequest,
    Commit,
    CommitRequest,
    ConfirmAnswer,
    FenceAnswer,
    FenceRequest,
    ReadAnswer,
    ReadRequest,
    Refusal,
    Window,
)
from reference.split.store.entries import Append, CommitOffset, Fence
from reference.split.store.group import Group
from reference.wire.codes import Request, Response
from tests.reference.split.broker_world import STORES, TOPIC_ID, BrokerWorld, Sent

KEY = TOPIC_ID, 0
#: Requests that become entries, and how each is read.
ENTRIES: dict[int, Any] = {
    Request.GROUP_FENCE: FenceRequest,
    Request.GROUP_APPEND: AppendRequest,
    Request.GROUP_COMMIT: CommitRequest,
}
Logged = tuple[Sent | None, Any]


class Storm(BrokerWorld):
    """The group's log as Raft would have it: entries wait for a majority, and a new leader may lack those that do."""

    def __init__(self, seed: int, **parts: Any) -> None:
        self.rng = Random(seed)
        self.group = Group(0)
        self.bodies: list[bytes] = []  # of the records that stand in the group, by offset
        self.waiting_entries: list[Logged] = []
        self.leader = STORES[0]
        self.sends: dict[int, bytes] = {}
        self.ends: dict[int, int] = {}  # requests for the end → how much was acknowledged when they were made
        self.pulled: list[tuple[int, bytes]] = []
        super().__init__(parts=parts, append_window=3, ack_timeout_ms=700)

    # What may happen

    def step(self) -> None:
        """Let one thing happen."""
        chances = [(self.client, 30), (self.reader, 10), (self.serve, 60), (self.commit_entry, 50)]
        chances += [(self.pass_time, 10), (self.lose_request, 4), (self.change_leader, 3), (self.break_line, 2)]
        moves, weights = zip(*chances, strict=True)
        self.rng.choices(moves, weights)[0]()

    def client(self) -> None:
        body = f"m{len(self.sends)}".encode()
        self.sends[self.send(body)] = body

    def reader(self) -> None:
        if self.rng.random() < 0.5:
            acked = sum(self.code(number) == 0 for number in self.sends)
            self.ends[self.of_queue(Request.GET_MAX_OFFSET)] = acked
        else:
            self.pull(self.rng.randrange(len(self.bodies) + 2))

    def pass_time(self) -> None:
        self.run(self.rng.randrange(1, 200))

    def lose_request(self) -> None:
        if asked := self._any():
            self.env.sent.remove(asked)

    def break_line(self) -> None:
        self.cut(self.rng.choice(STORES))

    def change_leader(self) -> None:
        """Another store leads; of the entries that wait it has some."""
        del self.waiting_entries[self.rng.randrange(len(self.waiting_entries) + 1) :]
        self.waiting_entries = [(None, entry) for _, entry in self.waiting_entries]
        self.leader = self.rng.choice(STORES)

    def serve(self) -> None:
        """Take a request at the store that it was sent to."""
        asked = self._any()
        if asked is None:
            return
        self.env.sent.remove(asked)
        code = asked.message.code
        if code == Request.GROUP_READ:
            self._read(asked)
        elif asked.to != self.leader:
            self.refuse(asked, Response.GROUP_NOT_LEADER, leader=self.leader)
        elif code == Request.GROUP_CONFIRM:
            self.waiting_entries.append((asked, None))
        else:
            self.waiting_entries.append((asked, self._entry(ENTRIES[code].read(asked.message))))

    def _any(self) -> Sent | None:
        codes = (*ENTRIES, Request.GROUP_CONFIRM, Request.GROUP_READ)
        open_requests = [one for one in self.env.sent if one.message.code in codes]
        if not open_requests:
            return None
        first = self.rng.choice(open_requests)  # those to one store stay in order
        return next(one for one in open_requests if one.to == first.to)

    def _entry(self, asked: Any) -> Any:
        if isinstance(asked, FenceRequest):
            return Fence(slice=asked.slice, epoch=asked.epoch, broker=asked.broker, life=asked.life)
        if isinstance(asked, AppendRequest):
            return Append.of(asked)
        return CommitOffset(asked.epoch, asked.consumer, asked.topic_id, asked.number, asked.offset)

    def _read(self, asked: Sent) -> None:
        read = ReadRequest.read(asked.message)
        upto = self.rng.randrange(len(self.bodies) + 1)  # as far as this replica is
        if read.offset >= upto:
            self.refuse(asked, Response.GROUP_BEHIND)
            return
        data = b"".join(self.records[read.offset : min(upto, read.offset + read.count)])
        self.deliver(asked.to, ReadAnswer(start=0, source="local", records=data).reply(asked.message))

    @property
    def records(self) -> list[bytes]:
        found, at = [], 0
        data = self.group.tail.data
        for record in decode_all(bytes(data)):
            found.append(bytes(data[at : at + record.size]))
            at += record.size
        return found

    # Entries are applied

    def commit_entry(self) -> None:
        """Commit and apply the first entry that waits; its answer may be lost."""
        if not self.waiting_entries:
            return
        asked, entry = self.waiting_entries.pop(0)
        code = self._apply(entry) if entry is not None else 0
        if asked is not None and self.rng.random() < 0.9:
            self._answer(asked, code)

    def _apply(self, entry: Any) -> int:
        outcome = self.group.apply(entry)
        if isinstance(entry, Append) and outcome.code == 0 and not outcome.again:
            self.bodies += [record.body for record in decode_all(entry.records)]
        return outcome.code

    def _answer(self, asked: Sent, code: int) -> None:
        epoch = self.group.fence.epoch
        if asked.message.code == Request.GROUP_CONFIRM and int(asked.message.fields["epoch"]) != epoch:
            code = Response.GROUP_FENCED
        if code:
            refusal = Refusal(code=code, remark="no")
            self.deliver(asked.to, refusal.reply(asked.message))
        elif asked.message.code == Request.GROUP_APPEND:
            self.deliver(asked.to, AppendAnswer(end=self.group.end).reply(asked.message))
        elif asked.message.code == Request.GROUP_CONFIRM:
            self.deliver(asked.to, ConfirmAnswer(starts=()).reply(asked.message))
        elif asked.message.code == Request.GROUP_FENCE:
            queues = tuple(Window(*key, one.first, one.next) for key, one in self.group.queues.items())
            commits = tuple(Commit(*key, offset) for key, offset in self.group.commits.items())
            found = FenceAnswer(end=self.group.end, queues=queues, commits=commits)
            self.deliver(asked.to, found.reply(asked.message))
        else:
            self.answer(asked)

    def take_over(self) -> None:
        """Another broker fences the group, and only the group says so to this one."""
        self.waiting_entries.append((None, Fence(slice=0, epoch=2, broker="broker-1", life=9)))

    def settle(self) -> None:
        """Let all that waits come to its end."""
        for _ in range(400):
            while self.waiting_entries:
                self.commit_entry()
            while self._any() is not None:
                self.serve()
            self.run(20)

    # What must be true

    def check(self) -> None:
        """Raise ``AssertionError`` where the broker has said what isn't so."""
        assert len(set(self.bodies)) == len(self.bodies), "a message stands in the group twice"
        for number, body in self.sends.items():
            answer = self.answers.get(number)
            assert answer is not None, f"{body!r} was never answered"
            if answer.code == 0:
                assert self.bodies[int(answer.fields["queueOffset"])] == body, f"{body!r} was acknowledged"
            elif answer.code != Response.FLUSH_SLAVE_TIMEOUT:
                assert body not in self.bodies, f"{body!r} was said not to be stored: {answer.remark}"
        for answer in self.answers.values():
            if answer.code == 0 and "nextBeginOffset" in answer.fields:
                for record in decode_all(answer.body):
                    assert self.bodies[record.offset] == record.body, "what was read has changed"
        for number, acked in self.ends.items():
            if self.answers[number].code == 0:
                assert int(self.answers[number].fields["offset"]) >= acked, "an end is below what was acknowledged"
