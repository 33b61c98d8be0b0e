"""What a client and a node say to each other on one connection, frame by frame, as rules on requests have it."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import inf
from random import Random
from typing import Protocol

from chaos.addresses import Reached
from chaos.effects.requests import (
    DelayAnswers,
    LoseAnswers,
    OnRequests,
    RefuseRequests,
    Standing,
    SwallowRequests,
    struck,
)
from chaos.frames import Frame, Frames, Readdresses

#: So many requests may wait for an answer; of more, the oldest are taken for such as get none.
MOST_WAITING = 100_000


class Ends(Protocol):
    """The two ends of the connection, and the rules on what is asked over it."""

    @property
    def standing(self) -> Standing: ...

    @property
    def rng(self) -> Random: ...

    def hit(self, rule_id: str) -> None: ...

    def to_node(self, data: bytes) -> None: ...

    def to_client(self, data: bytes) -> None: ...

    def node_has_ended(self) -> None:
        """Let the client hear that the node has ended the connection."""

    def abort(self) -> None: ...


@dataclass(slots=True)
class _Turn:
    """A request of a protocol whose answers come in order. ``answer``: the one that it gets from us; None: the node
    will answer it."""

    request: Frame
    answer: bytes | None = None


class Conversation:
    """One connection. Once something comes that makes no frame, all goes through untouched (``_blind``). In a protocol
    whose answers come in order, it may be ``_deaf``: nothing of what the client says arrives any more; or ``_mute``:
    nothing of what the node says. ``_held``: answers that are late, each with when it is due and whose rule that is.
    ``reached``: at which addresses the client reaches nodes, if these are others than nodes name in answers."""

    def __init__(self, frames: Frames, ends: Ends, reached: Reached | None = None) -> None:
        self._frames = frames
        self._ends = ends
        self._readdress = frames.readdress if isinstance(frames, Readdresses) and reached is not None else None
        self._reached = reached
        self._asking, self._answering = bytearray(), bytearray()
        self._numbered: dict[Hashable, Frame] = {}
        self._turns: deque[_Turn] = deque()
        self._held: list[tuple[float, int, bytes | None]] = []
        self._tickets = count()
        self._last_due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._blind = self._deaf = self._mute = False

    # What the client says

    def ask(self, data: bytes, *, ended: bool = False) -> None:
        """Take bytes of the client, ``ended`` with its last."""
        self._asking += data
        for frame in self._read(self._frames.requests, self._asking):
            self._ask(frame)
        if (self._blind or ended) and not self._deaf:
            self._pass_on(self._asking, self._ends.to_node)

    def _ask(self, frame: Frame) -> None:
        if self._deaf:
            return
        found = self._struck(frame, RefuseRequests, SwallowRequests)
        if found is not None and isinstance(found[1], SwallowRequests):
            self._ends.hit(found[0])
            self._deaf = frame.paired and frame.number is None
            return
        if found is not None and frame.paired and (answer := self._frames.refusal(frame)):
            self._ends.hit(found[0])
            self._refuse(frame, answer)
            return
        if frame.paired and frame.number is not None:
            self._numbered[frame.number] = frame
            if len(self._numbered) > MOST_WAITING:
                del self._numbered[next(iter(self._numbered))]
        elif frame.paired and frame.number is None:
            self._turns.append(_Turn(frame))
        self._ends.to_node(frame.data)

    def _refuse(self, frame: Frame, answer: bytes) -> None:
        """Give the client our answer: where answers come in order, after those that are still to come."""
        if frame.number is not None:
            self._ends.to_client(answer)
        else:
            self._turns.append(_Turn(frame, answer))
            self._give_ours()

    def _give_ours(self) -> None:
        while self._turns and (answer := self._turns[0].answer) is not None:
            self._turns.popleft()
            if not self._mute:
                self._deliver(answer, in_order=True)

    # What the node says

    def answer(self, data: bytes) -> None:
        """Take bytes of the node."""
        self._answering += data
        self._read_answers(ended=False)

    def end(self) -> None:
        """Take it that the node has ended the connection, which the client hears after all that is held."""
        self._read_answers(ended=True)
        if not self._mute:
            self._pass_on(self._answering, lambda data: self._deliver(data, in_order=True))
        self._deliver(None, in_order=True)

    def _read_answers(self, *, ended: bool) -> None:
        for frame in self._read(partial(self._frames.answers, ended=ended), self._answering):
            self._answer(frame)
        if self._blind and not self._mute:
            self._pass_on(self._answering, lambda data: self._deliver(data, in_order=True))

    def _answer(self, frame: Frame) -> None:
        request, in_order = self._request_of(frame), frame.number is None
        data = self._readdressed(request, frame)
        found = self._struck(request, LoseAnswers, DelayAnswers) if request is not None and not self._mute else None
        if found is None:
            if not self._mute:
                self._deliver(data, in_order=in_order)
        else:
            rule_id, action = found
            self._ends.hit(rule_id)
            if isinstance(action, DelayAnswers):
                self._deliver(data, in_order=in_order, late_s=action.delay_ns / 1e9)
            elif isinstance(action, LoseAnswers) and action.breaks:
                self._ends.abort()
                return
            else:
                self._mute = in_order
        self._give_ours()

    def _readdressed(self, request: Frame | None, answer: Frame) -> bytes:
        """Return what the client is given of an answer."""
        if self._readdress is None or self._reached is None:
            return answer.data
        try:
            return self._readdress(request, answer, self._reached)
        except ValueError:
            return answer.data

    def _request_of(self, frame: Frame) -> Frame | None:
        """Return what this answers; None for what a node says unasked, and for an answer to nothing known."""
        if not frame.paired:
            return None
        if frame.number is not None:
            return self._numbered.pop(frame.number, None)
        return self._turns.popleft().request if self._turns else None

    def _read(self, read: Callable[[bytearray], Sequence[Frame]], buffer: bytearray) -> Sequence[Frame]:
        """Return the frames in a buffer; where something is none, the buffer is as it was, and nothing is read."""
        if self._blind:
            return ()
        before = bytes(buffer)
        try:
            return read(buffer)
        except ValueError:
            buffer[:] = before
            self._blind = True
            return ()

    # What is held

    def rules_changed(self) -> None:
        """Let go what is held if no rule delays answers any more. A connection that went silent for a rule that is
        gone breaks: nothing on it would ever be answered."""
        standing = [type(action) for _, action in self._ends.standing]
        if (self._deaf and SwallowRequests not in standing) or (self._mute and LoseAnswers not in standing):
            self._ends.abort()
        elif self._held and DelayAnswers not in standing:
            self._last_due_s = 0.0
            self._release(inf)

    def close(self) -> None:
        """Forget all that is held: there is no reader any more."""
        self._held.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _deliver(self, data: bytes | None, *, in_order: bool, late_s: float = 0.0) -> None:
        """Give the client an answer, or (None) the end, when it is due."""
        now_s = asyncio.get_running_loop().time()
        due_s = max(now_s + late_s, self._last_due_s) if in_order else now_s + late_s
        if due_s <= now_s and not (in_order and self._held):
            self._give(data)
            return
        self._last_due_s = max(due_s, self._last_due_s)
        heapq.heappush(self._held, (due_s, next(self._tickets), data))
        self._wake()

    def _wake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if self._held:
            due_s = self._held[0][0]
            self._timer = asyncio.get_running_loop().call_at(due_s, self._release, due_s)

    def _release(self, until_s: float) -> None:
        while self._held and self._held[0][0] <= until_s:
            self._give(heapq.heappop(self._held)[2])
        self._wake()

    def _give(self, data: bytes | None) -> None:
        if data is None:
            self._ends.node_has_ended()
        else:
            self._ends.to_client(data)

    def _struck(self, request: Frame, *those: type[OnRequests]) -> tuple[str, OnRequests] | None:
        return struck(self._ends.standing, request.kind, self._ends.rng, *those)

    def _pass_on(self, buffer: bytearray, give: Callable[[bytes], None]) -> None:
        if buffer:
            data = bytes(buffer)
            buffer.clear()
            give(data)
