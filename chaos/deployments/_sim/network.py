"""Simulated links: ordered, at most once, breakable, buffered, as TCP connections are.

Each pair of names has two pipes, one per direction. A node's first message to another node opens its pipe (a dial); a
node reaches a client only over the connection that the client opened. Both pipes of a pair break together, and the far
side hears of it through the pipe itself, so a stalled link also hides a peer's death.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from heapq import heappush
from random import Random
from typing import Protocol

from chaos.deployments._sim.loop import SECOND_NS, VirtualLoop
from chaos.draws import Draws
from chaos.effects.links import FREE, Delay, LinkRule, Reset, Ruling, Stall, on_requests, ruling
from chaos.effects.requests import DelayAnswers, LoseAnswers, RefuseRequests, Standing, SwallowRequests, struck
from chaos.experiment.targets import CLIENT
from chaos.frames import CodecFrames
from chaos.node import Codec, Message

#: One-way latency: a constant of each direction, drawn once, plus jitter for each chunk, plus time by size; or the same
#: for all chunks of all links that nothing is drawn for.
BASE_LATENCY_NS = (200_000, 600_000)
JITTER_NS = 400_000
NS_PER_BYTE = 8
EVEN_LATENCY_NS = 400_000
#: A sender's buffers: when so many chunks wait for a stalled link, the connection breaks.
MAX_WAITING_CHUNKS = 100_000


class Host(Protocol):
    """An end of connections: a node or a client. ``pipes`` belongs to the network."""

    name: str
    alive: bool
    is_client: bool
    pipes: dict[str, Pipe]

    def arrive(self, source: str, message: Message) -> None:
        """Take one message."""

    def lost(self, peer: str, refused: bool) -> None:
        """Note that the connection with ``peer`` is gone; ``refused``: nothing of it ever reached the peer."""


@dataclass(frozen=True, slots=True)
class _Gone:
    """The last chunk of a connection: the far side has dropped it."""

    refused: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of a client that makes its frames itself: a frame, or a part of one, or whatever else."""

    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)


#: What a pipe carries, and loses or delivers as a whole.
Chunk = Message | Piece | _Gone


class Pipe:
    """One direction between two names.

    ``dialled``: the source holds a connection. ``accepted``: the target has seen it. ``void``: the target has dropped
    it, the source doesn't know yet, what it sends is lost. ``delivered``: a target has taken something of what the
    source takes for one connection, whatever became of that target since. ``generation`` sets chunks under way apart
    from lost ones. ``blocked``: chunks wait in ``waiting``, each until its own time, and later ones queue up behind;
    ``holding``: rules say so. ``floor_ns``: no chunk arrives earlier; ``free_ns``: by then a throttled link has carried
    all. ``partial``: bytes that are no whole frame yet, or never will be, since a bit of them was flipped. ``closing``:
    an end that is held back since ``closing_ns``. ``rng`` draws what happens to its chunks, and to no other link's: to
    leave out what one link carries changes nothing on the others. ``base_ns``, ``jitter_ns`` and ``ns_per_byte`` make
    up its latency.
    """

    __slots__ = (
        "accepted",
        "asked",
        "back",
        "base_ns",
        "blocked",
        "closing",
        "closing_ns",
        "delivered",
        "dialled",
        "floor_ns",
        "free_ns",
        "generation",
        "holding",
        "jitter_ns",
        "ns_per_byte",
        "partial",
        "requests",
        "rng",
        "ruling",
        "source",
        "target",
        "void",
        "waiting",
    )
    back: Pipe
    #: Of a node's pipe to a client: by number, what kinds of requests it has not answered, while rules hit such.
    asked: dict[int, str]
    #: Of a client's pipe to a node: the rules on what it asks.
    requests: Standing

    def __init__(self, source: Host, target: Host, rng: Random, jitter_ns: int) -> None:
        self.source = source
        self.target = target
        self.rng = rng
        self.base_ns, self.jitter_ns, self.ns_per_byte = rng.randint(*BASE_LATENCY_NS), jitter_ns, NS_PER_BYTE
        self.ruling: Ruling = FREE
        self.asked, self.requests = {}, ()
        self.generation = 0
        self.floor_ns = self.free_ns = self.closing_ns = 0
        self.dialled = self.accepted = self.delivered = self.void = self.blocked = self.holding = False
        self.waiting: deque[tuple[int, Chunk]] = deque()
        self.partial = bytearray()
        self.closing: _Gone | None = None

    def even(self) -> None:
        """Carry each chunk in the same time as all other even pipes, so that what was sent first arrives first. Rules
        still draw what they drew."""
        self.base_ns, self.jitter_ns, self.ns_per_byte = EVEN_LATENCY_NS, 0, 0

    def drawn(self, links: Collection[str]) -> bool:
        """Return whether these links, written as experiments have them, are or hold this one."""
        source, target = (CLIENT if end.is_client else end.name for end in (self.source, self.target))
        return source in links or f"{source}>{target}" in links

    def lose(self) -> None:
        """Drop all that is under way."""
        self.generation += 1
        self.waiting.clear()
        self.partial.clear()
        self.blocked = False
        self.closing = None


class SimNet:
    """All hosts, pipes and rules. Whatever it decides is drawn from the seed, for each pipe by itself. ``codec``: the
    frames of the system, for rules that count or flip their bytes. ``drawn_links``: those whose latency is drawn, where
    that of the others is the same for all their messages; None for all."""

    codec: Codec
    #: The reader of requests, for rules on them; None where there is none.
    frames: CodecFrames | None = None

    def __init__(
        self,
        loop: VirtualLoop,
        draws: Draws,
        jitter_ns: int = JITTER_NS,
        drawn_links: Collection[str] | None = None,
    ) -> None:
        self._loop = loop
        self._draws = draws
        self._jitter_ns = jitter_ns
        self._drawn_links = drawn_links
        self._hosts: dict[str, Host] = {}
        self._pipes: list[Pipe] = []
        self._rules: dict[str, LinkRule] = {}
        self._hits: dict[str, int] = {}
        #: Hosts that can open no connection more.
        self.full: set[str] = set()

    def add(self, host: Host) -> None:
        self._hosts[host.name] = host

    def send(self, source: Host, to: str, message: Message | Piece) -> None:
        """Put a message on its way; dial first if need be. To an unknown name, or a client that has no connection:
        lost."""
        pipe = source.pipes.get(to) or self._connect(source, to)
        if pipe is None:
            return
        if pipe.void:
            pipe.dialled = True
            return
        dial_ns = 0
        if not pipe.dialled:
            if pipe.target.is_client and not pipe.back.accepted:
                return
            if pipe.closing is not None:
                self._close_now(pipe)
            if self.full and source.name in self.full and not pipe.back.accepted:
                pipe.dialled = pipe.void = True
                self._loop.post(pipe.base_ns, self._learn, pipe.back, _Gone(refused=True))
                return
            pipe.dialled = True
            dial_ns = 0 if pipe.target.is_client else 2 * pipe.base_ns
        loop = self._loop
        at_ns = loop.now_ns + pipe.base_ns + int(pipe.rng.random() * pipe.jitter_ns) + dial_ns
        at_ns += message.size * pipe.ns_per_byte
        if pipe.asked and not isinstance(message, Piece) and message.is_response:
            late_ns = self._answered(pipe, message)
            if late_ns is None:
                return
            if late_ns:  # others overtake it
                heappush(
                    loop.queue, (at_ns + late_ns, next(loop.ticket), self._arrive, (pipe, pipe.generation, message))
                )
                return
        if pipe.ruling is not FREE:
            at_ns += pipe.ruling.late_ns(pipe.rng, self._hit)
            if pipe.ruling.breaks(pipe.rng, self._hit):
                self._reset(pipe)
                return
        if at_ns < pipe.floor_ns:
            at_ns = pipe.floor_ns
        else:
            pipe.floor_ns = at_ns
        heappush(loop.queue, (at_ns, next(loop.ticket), self._arrive, (pipe, pipe.generation, message)))

    def addresses(self) -> dict[str, str]:
        """Return what a client from outside calls the nodes."""
        nodes = sorted(name for name, host in self._hosts.items() if not host.is_client)
        return {name: f"10.0.0.{number}:10911" for number, name in enumerate(nodes, start=1)}

    def leave(self, host: Host, *, lose_sent: bool) -> None:
        """Break all connections of a host whose process is gone; ``lose_sent``: what it had sent is lost too."""
        for pipe in host.pipes.values():
            self._break(pipe, lose_sent=lose_sent)

    def close(self, host: Host, peer: str) -> None:
        """Drop the host's connection with this peer; what is under way is lost in both directions."""
        pipe = host.pipes.get(peer)
        if pipe is not None:
            self._break(pipe, lose_sent=True)

    def set_rule(self, rule_id: str, rule: LinkRule) -> None:
        self._rules[rule_id] = rule
        self._hits.setdefault(rule_id, 0)
        self._apply_rules(self._pipes)

    def clear_rule(self, rule_id: str) -> None:
        self._hits.pop(rule_id, None)
        if self._rules.pop(rule_id, None) is not None:
            self._apply_rules(self._pipes)

    def rule_hits(self, rule_id: str) -> int:
        return self._hits.get(rule_id, 0)

    def passes(self, source: str, target: str, *, within_ns: int) -> bool:
        """Return whether the rules let a fresh connection of these two come about in this time; as a dial needs an
        answer, both ways count. Takes no time and draws nothing, so that to ask changes nothing."""
        if source in self.full or target in self.full:
            return False
        late_ns = 0
        for way in ((source, target), (target, source)):
            found = ruling(self._rules, *way)
            if found.cut:
                return False
            for _, action in found.acting:
                match action:
                    case Reset(per_mille=1000):
                        return False
                    case Delay(delay_ns=delay_ns) | Stall(per_mille=1000, stall_ns=delay_ns):
                        late_ns += delay_ns
        return late_ns <= within_ns

    def _connect(self, source: Host, to: str) -> Pipe | None:
        """Make the two pipes of a pair when it first speaks."""
        target = self._hosts.get(to)
        if target is None or target is source:
            return None
        pipes = []
        for one, other in ((source, target), (target, source)):
            rng = self._draws.of(f"{one.name}>{other.name}")
            pipe = one.pipes[other.name] = Pipe(one, other, rng, self._jitter_ns)
            if self._drawn_links is not None and not pipe.drawn(self._drawn_links):
                pipe.even()
            pipes.append(pipe)
        pipes[0].back, pipes[1].back = pipes[1], pipes[0]
        self._pipes += pipes
        self._apply_rules(pipes)
        return pipes[0]

    def _apply_rules(self, pipes: list[Pipe]) -> None:
        """Find what the rules now do to each pipe; let chunks go that none of them holds any more."""
        for pipe in pipes:
            before, pipe.ruling = pipe.ruling, ruling(self._rules, pipe.source.name, pipe.target.name)
            pipe.holding = pipe.ruling.holds
            self._rule_requests(pipe)
            if pipe.ruling.bytes_per_s != before.bytes_per_s:
                self._pace(pipe)
            if pipe.blocked and not pipe.ruling.cut:
                self._loop.post(pipe.base_ns, self._release, pipe)
            if pipe.closing is not None and pipe.ruling.end_delay_ns != before.end_delay_ns:
                self._close_in_time(pipe, pipe.closing)

    def _rule_requests(self, pipe: Pipe) -> None:
        """Find what the rules now do to what a client asks; the rest is forgotten with the last of them."""
        if self.frames is not None and pipe.source.is_client:
            pipe.requests = on_requests(self._rules, pipe.source.name, pipe.target.name)
            if not pipe.requests:
                pipe.back.asked.clear()

    def _hit(self, rule_id: str) -> None:
        self._hits[rule_id] += 1

    def _pace(self, pipe: Pipe) -> None:
        """Let what waits go on at the link's new speed."""
        pipe.free_ns = self._loop.now_ns
        waiting = [chunk for _, chunk in pipe.waiting]
        pipe.waiting.clear()
        for chunk in waiting:
            self._queue(pipe, chunk)

    def _arrive(self, pipe: Pipe, generation: int, chunk: Chunk) -> None:
        if generation != pipe.generation:
            return
        if pipe.blocked or pipe.holding:
            self._hold(pipe, chunk)
        else:
            self._deliver(pipe, chunk)

    def _hold(self, pipe: Pipe, chunk: Chunk) -> None:
        pipe.blocked = True
        self._queue(pipe, chunk)
        pipe.ruling.held(self._hit)
        if len(pipe.waiting) > MAX_WAITING_CHUNKS:
            self._reset(pipe)

    def _queue(self, pipe: Pipe, chunk: Chunk) -> None:
        """Let a chunk wait behind the others, until the link has carried it."""
        now_ns = due_ns = self._loop.now_ns
        if pipe.ruling.bytes_per_s:
            size = 0 if isinstance(chunk, _Gone) else len(self._bytes_of(chunk))
            pipe.free_ns = due_ns = max(now_ns, pipe.free_ns) + size * SECOND_NS // pipe.ruling.bytes_per_s
            self._loop.post(due_ns - now_ns, self._release, pipe)
        pipe.waiting.append((due_ns, chunk))

    def _release(self, pipe: Pipe) -> None:
        """Deliver what waited, in order: all of it at once, or what a throttled link has carried by now."""
        if pipe.ruling.cut:
            return
        until_ns = self._loop.now_ns if pipe.ruling.bytes_per_s else None
        while pipe.waiting:
            if until_ns is not None and pipe.waiting[0][0] > until_ns:
                return  # its own release is on its way
            self._deliver(pipe, pipe.waiting.popleft()[1])
        pipe.blocked = False

    def _deliver(self, pipe: Pipe, chunk: Chunk) -> None:
        target = pipe.target
        if isinstance(chunk, _Gone):
            self._learn(pipe, chunk)
        elif target.alive and not (self.full and self._turns_away(pipe)):
            pipe.accepted = pipe.delivered = True
            if pipe.partial or pipe.ruling.corrupts or isinstance(chunk, Piece):
                self._deliver_bytes(pipe, chunk)
            elif not pipe.requests or self._lets_through(pipe, chunk):
                target.arrive(pipe.source.name, chunk)
        else:
            self._refuse(pipe)

    def _lets_through(self, pipe: Pipe, request: Message) -> bool:
        """Do what the rules say to something that a client asks; return whether it arrives all the same."""
        assert self.frames is not None, "said before the start"
        kind = "" if request.is_response else self.frames.kind_of(request)
        found = struck(pipe.requests, kind, pipe.rng, RefuseRequests, SwallowRequests)
        if found is not None and (isinstance(found[1], SwallowRequests) or not request.is_oneway):
            self._hit(found[0])
            if isinstance(found[1], RefuseRequests):
                self.send(pipe.target, pipe.source.name, request.refused(self.frames.error))
            return False
        if kind and not request.is_oneway:
            pipe.back.asked[request.number] = kind
        return True

    def _answered(self, pipe: Pipe, answer: Message) -> int | None:
        """Do what the rules say to a node's answer; return how much later it arrives, None if it never does."""
        kind = pipe.asked.pop(answer.number, "")
        found = struck(pipe.back.requests, kind, pipe.rng, LoseAnswers, DelayAnswers)
        if found is None:
            return 0
        rule_id, action = found
        self._hit(rule_id)
        if isinstance(action, DelayAnswers):
            return action.delay_ns
        if isinstance(action, LoseAnswers) and action.breaks:
            self._reset(pipe)
        return None

    def _bytes_of(self, chunk: Message | Piece) -> bytes:
        return chunk.body if isinstance(chunk, Piece) else self.codec.encode(chunk)

    def _deliver_bytes(self, pipe: Pipe, chunk: Message | Piece) -> None:
        """Deliver the bytes that a chunk is on the wire, bits of which may be flipped. A receiver that
        can't read them drops the connection; one that reads a greater length waits for the rest of it."""
        frame = bytearray(self._bytes_of(chunk))
        for _ in range(pipe.ruling.flips(pipe.rng, self._hit)):
            bit = pipe.rng.randrange(8 * len(frame))
            frame[bit // 8] ^= 1 << bit % 8
        pipe.partial += frame
        generation = pipe.generation
        try:
            messages = self.codec.decode(pipe.partial)
        except ValueError:
            self._break(pipe.back, lose_sent=True)
            pipe.target.lost(pipe.source.name, False)
            return
        for one in messages:
            if generation == pipe.generation:  # the target may have closed the connection meanwhile
                pipe.target.arrive(pipe.source.name, one)

    def _turns_away(self, pipe: Pipe) -> bool:
        """Return whether the target has no room for this connection, which would be a new one."""
        return pipe.target.name in self.full and not (pipe.accepted or pipe.back.accepted)

    def _refuse(self, pipe: Pipe) -> None:
        """Refuse what nobody listens for: the target's machine answers so at once, and forgets what the dead process
        knew."""
        refused = not pipe.delivered
        pipe.lose()
        pipe.accepted = pipe.back.dialled = pipe.back.void = False
        pipe.void = True
        self._notify(pipe.back, _Gone(refused))

    def _break(self, pipe: Pipe, *, lose_sent: bool) -> None:
        """Drop the connection at its source; the target learns of it in the order of the bytes."""
        back = pipe.back
        known_there = pipe.dialled or pipe.accepted or back.dialled or back.void
        refused = not back.delivered
        back.lose()
        back.accepted = False
        if lose_sent:
            pipe.lose()
        pipe.dialled = pipe.delivered = pipe.void = False
        if known_there:
            back.void = True
            self._notify(pipe, _Gone(refused))

    def _reset(self, pipe: Pipe) -> None:
        """Break the connection as a rule says: the source learns of it now, the target in its time."""
        refused = not pipe.delivered
        self._break(pipe, lose_sent=True)
        self._loop.post(0, pipe.source.lost, pipe.target.name, refused)

    def _notify(self, pipe: Pipe, gone: _Gone) -> None:
        pipe.closing, pipe.closing_ns = gone, self._loop.now_ns
        pipe.ruling.ends(self._hit)
        self._close_in_time(pipe, gone)

    def _close_in_time(self, pipe: Pipe, gone: _Gone) -> None:
        """Pass the end of the connection on, once the rules no longer delay it, unless that has been done."""
        left_ns = pipe.closing_ns + pipe.ruling.end_delay_ns - self._loop.now_ns
        if pipe.closing is gone and left_ns <= 0:
            self._close_now(pipe)
        elif pipe.closing is gone:
            self._loop.post(left_ns, self._close_in_time, pipe, gone)

    def _close_now(self, pipe: Pipe) -> None:
        loop = self._loop
        pipe.floor_ns = max(loop.now_ns + pipe.base_ns, pipe.floor_ns)
        loop.post(pipe.floor_ns - loop.now_ns, self._arrive, pipe, pipe.generation, pipe.closing)
        pipe.closing = None

    def _learn(self, pipe: Pipe, gone: _Gone) -> None:
        """Let the target hear that the source has dropped the connection."""
        back = pipe.back
        known = back.dialled or pipe.accepted
        back.dialled = back.delivered = back.void = pipe.accepted = False
        if known and pipe.target.alive:
            pipe.target.lost(pipe.source.name, gone.refused)
