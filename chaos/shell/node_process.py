"""The shell of a node that is a process: TCP connections, timers and a strict disk around the same step functions.

``python -m PACKAGE JSON`` ends up in :func:`main`; the JSON, or the file of that name, is a
:class:`chaos.shell.launch.Launch`. People write ``python -m PACKAGE ROLE NAME`` instead, and all else into the
environment. Imports only the standard library and :mod:`chaos.node`, so that a host needs nothing but the wheel of the
nodes' code.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from chaos.node import OUTSIDE, Address, Codec, Message, Node, NodeSpec, NoDisk
from chaos.shell import clocks
from chaos.shell.connections import Connections, Listener
from chaos.shell.environment import HELP, NO_OPTIONS, Options, launch_by_hand
from chaos.shell.launch import HOST, Launch
from chaos.shell.outside import Outside, Unfit
from chaos.shell.parent import die_with
from chaos.shell.step import CLOSED, DONE, MESSAGE, START, TIMER, Event, Life
from chaos.shell.strict_disk import StrictDisk
from chaos.shell.trace_file import TraceFile

#: The exit code of a process that an exception of its own node code has ended.
CRASHED = 70
#: That of one whose outside can't serve it; before its first step.
UNFIT = 3
#: How long a thread that wants to go on waits for a busy one. The disk's thread waits after each call of the system:
#: with Python's own 5 ms, a sync beside a busy node takes 7 ms instead of 2.
SWITCH_S = 0.0005


def main(
    build: Callable[[NodeSpec], Node],
    codec: Callable[[NodeSpec], Codec],
    options: Options = NO_OPTIONS,
    outside: Callable[[NodeSpec], Outside | None] = lambda spec: None,
) -> None:
    """Be the node that the command line asks for, until killed, or asked by SIGTERM to end in good order.

    ``options``: by role, what people can say of a node that they start (:mod:`chaos.shell.environment`). ``outside``:
    what serves the node where it asks for the world outside of its cluster; it may raise :class:`Unfit`.
    """
    words = sys.argv[1:]
    sys.setswitchinterval(SWITCH_S)
    clocks.leave_nothing_shared()
    if len(words) == 1 and words[0] not in HELP:
        text = words[0] if words[0].startswith("{") else Path(words[0]).read_text("utf-8")
        launch = Launch.from_json(text)
    else:
        launch = launch_by_hand(sys.modules["__main__"].__package__ or "PACKAGE", options, words, os.environ)
    is_first = launch.incarnation <= 1
    if not launch.incarnation:
        launch = replace(launch, incarnation=int(time.time()))
    if launch.parent:
        die_with(launch.parent)
    try:
        shell = Shell(launch, build(launch.spec), codec(launch.spec), outside(launch.spec))
        asyncio.run(shell.run(is_first=is_first))
    except Unfit as error:
        print(f"{launch.spec.name}: {error}", file=sys.stderr, flush=True)
        os._exit(UNFIT)  # threads of a store's library abort some processes whose interpreter ends before them


class Shell:
    """Runs one node's steps, one after the other, each whole. Implements :class:`chaos.shell.step.Host`."""

    def __init__(self, launch: Launch, node: Node, codec: Codec, outside: Outside | None = None) -> None:
        self.launch = launch
        self.clocks = clocks.Clocks(Path(launch.clock) if launch.clock else None)
        self._node = node
        self._codec = codec
        self._trace = TraceFile(Path(launch.trace))
        self._tickets = count(1)
        self._leaving: list[tuple[str, bytes]] = []
        self._leaves = False
        self._outside = outside
        self._asked: list[Message] = []
        self._asking: set[asyncio.Task[None]] = set()

    async def run(self, *, is_first: bool = True) -> None:
        """Be the node. ``is_first``: it has not lived before. Raises :class:`Unfit`."""
        launch = self.launch
        self.loop = asyncio.get_running_loop()
        if self._outside is not None and is_first:
            await self._outside.begin()
        self.disk = self._open_disk() if launch.spec.disk else None
        self.connections = Connections(
            launch,
            self._codec,
            Listener(
                message=lambda source, message: self.take((MESSAGE, source, message)),
                closed=lambda peer: self.take((CLOSED, peer)),
                clocks=self.clocks.to_json,
            ),
        )
        self.life = Life(
            self._node,
            self,
            name=launch.spec.name,
            incarnation=launch.incarnation,
            rng=Random(f"{launch.seed}/{launch.spec.name}/{launch.incarnation}"),
            disk=self.disk or NoDisk(),
            clock=self.clocks,
        )
        self.loop.add_signal_handler(signal.SIGTERM, self.end)
        server = await self.connections.listen()
        self.take((START,))
        if launch.addresses:
            await server.serve_forever()
        await server.start_serving()
        await self._register(server.sockets[0].getsockname()[1])

    def _open_disk(self) -> StrictDisk:
        """Return the node's disk; its own thread calls us back when a sync is done or has failed."""
        launch = self.launch

        def call_back(call: Callable[..., object], *arguments: object) -> None:
            self.loop.call_soon_threadsafe(call, *arguments)

        return StrictDisk(
            Path(launch.disk),
            lambda token: call_back(self.take, (DONE, token)),
            partial(call_back, self.crash),
            rules=Path(launch.disk_rules) if launch.disk_rules else None,
            gate=Path(launch.gate) if launch.gate else None,
        )

    async def _register(self, port: int) -> None:
        """Report to the supervisor where we listen, and stay for as long as it does."""
        reader, writer = await asyncio.open_connection(HOST, self.launch.proxy_port)
        hello = {
            "node": self.launch.spec.name,
            "incarnation": self.launch.incarnation,
            "port": port,
            "pid": os.getpid(),
        }
        writer.write(json.dumps(hello).encode() + b"\n")
        await reader.read()

    def take(self, event: Event) -> None:
        """Run one step of the node's code. What all steps of one round of the loop have traced is written at its end,
        then what they have sent leaves, all for one peer together."""
        if event[0] == CLOSED:
            self._forget(event[1])
        try:
            self.life.take(event)
            for to, message in self.life.outbox.take():
                if to == OUTSIDE:
                    self._asked.append(message)
                else:
                    self._leaving.append((to, self._frame(to, message)))
        except Exception as error:
            self.crash(error)
            raise
        if not self._leaves:
            self._leaves = True
            self.loop.call_soon(self._leave)

    def _leave(self) -> None:
        self._leaves = False
        leaving, self._leaving = self._leaving, []
        self._trace.write()
        self._ask_outside()
        by_peer: dict[str, list[bytes]] = {}
        for to, frame in leaving:
            by_peer.setdefault(to, []).append(frame)
        for to, frames in by_peer.items():
            self.connections.send(to, b"".join(frames))

    def _ask_outside(self) -> None:
        asked, self._asked = self._asked, []
        if self._outside is None:
            return  # what has no receiver is lost
        for message in asked:
            task = self.loop.create_task(self._ask(self._outside, message))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self, outside: Outside, message: Message) -> None:
        try:
            answer = await outside.answer(message)
        except Exception as error:
            self.crash(error)
            raise
        self.take((MESSAGE, OUTSIDE, answer))

    def _forget(self, peer: str) -> None:
        """Drop what would leave for this peer: it is lost with the connection."""
        self._leaving = [(to, frame) for to, frame in self._leaving if to != peer]

    def _frame(self, to: str, message: Message) -> bytes:
        """Return what goes on the wire. An answer that makes no frame, for it is too large, becomes one that says so; a
        node that asks for what makes none has failed. Raises whatever the codec raises."""
        try:
            return self.connections.frame(to, message)
        except ValueError as error:
            if not message.is_response:
                raise
            return self.connections.frame(to, message.refused(error))

    def crash(self, error: Exception) -> None:
        """End the process on an exception of the node's own code, or of its disk; nothing of this step leaves, nor of
        those just before it."""
        try:
            self.life.crash(error)
            self._trace.write()
            traceback.print_exception(error)
            sys.stderr.flush()
        finally:  # to record it may fail too, without memory for example; to go on after half a step would be worse
            os._exit(CRASHED)

    def end(self) -> None:
        """End in good order: no step is taken any more, and all that the node has written becomes durable."""
        if self.disk is not None:
            self.disk.sync_all()
            self.disk.close()
        sys.stdout.flush()
        os._exit(0)

    # What steps ask for (chaos.shell.step.Host)

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def record(self, row: Mapping[str, object]) -> None:
        self._trace.add(row)

    def start_timer(self, name: str, delay_ns: int) -> int:
        ticket = next(self._tickets)
        self.loop.call_later(self.clocks.true_s(delay_ns), self.take, (TIMER, name, ticket))
        return ticket

    def endpoints(self, peer: str) -> tuple[Address, Address]:
        return self.connections.endpoints(peer)

    def disconnect(self, peer: str) -> None:
        self._forget(peer)
        self.connections.disconnect(peer)
