"""The nodes of a cluster that are programs of others: how they are started, when they are ready, and what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from chaos.effects.links import HARNESS, Reach
from chaos.errors import BadInput, DeploymentError, HostLost
from chaos.machines.lifecycle.crashes import last_words
from chaos.machines.machine import Links, Machine, Off, Seat
from chaos.node import NodeSpec
from chaos.program import Answers, LogSays, PortAccepts, Program, Ready, Surroundings, problems, render
from chaos.shell import files_below
from chaos.shell.launch import Launch

#: What becomes a node's program, as its package does for others.
PACKAGE = "chaos.shell.exec_program"
#: A later life need not be ready, for that may take nodes that are down; so long it is waited for at most.
AGAIN_S = 5.0
#: How long one connection, or one answer, may take.
TRY_S = 1.0
POLL_S = 0.02
#: Exit codes of a program that was ended by SIGTERM in good order: its own, the shells' word for that, the signal.
ORDERLY_EXITS = (0, 143, -15)
#: What is kept of one node at most.
MOST_KEPT_FILES = 1000
MOST_KEPT_BYTES = 64 << 20
PIECE_BYTES = 1 << 20


def check(nodes: Iterable[NodeSpec]) -> None:
    """Raise :class:`BadInput` with everything that is wrong with the programs of a cluster."""
    specs = list(nodes)
    found = problems({spec.name: spec.program for spec in specs if spec.program}, [spec.name for spec in specs])
    recipes = [spec.program.recipe for spec in specs if spec.program and spec.program.recipe]
    found += dict.fromkeys(recipe.problem for recipe in recipes if recipe.problem)
    if found:
        raise BadInput(*found)


class Programs:
    """What is known of them. ``seats`` and ``specs`` are the lifecycle's own, of all nodes."""

    def __init__(self, off: Off, links: Links, specs: Mapping[str, NodeSpec], seats: Mapping[str, Seat]) -> None:
        self._off = off
        self._links = links
        self._specs = specs
        self._seats = seats

    def of(self, node: str) -> Program | None:
        """Return the program of a node, if it is one."""
        return self._specs[node].program if node in self._specs else None

    async def serve(self, node: str) -> None:
        """Let clients find it, also by the addresses that nodes name."""
        await self._links.know(node, self._seats[node].known_as(node))
        if self.of(node) is not None:
            await self._links.serve(node, self._seats[node].reached)

    async def launch(self, launch: Launch) -> Launch:
        """Return the launch of a node, with its program if it is one."""
        spec = launch.spec
        if spec.program is None:
            return launch
        seat = self._seats[spec.name]
        places = await self._off(seat.machine.places, spec.name)
        recipe = spec.program.recipe
        installed = await self._off(seat.machine.install, recipe) if recipe is not None else ""
        others = self._seats.items()
        there = Surroundings(
            name=spec.name,
            addresses={name: other.peer or _main(other) for name, other in others},
            ips={name: other.ip or other.peer.rpartition(":")[0] or "127.0.0.1" for name, other in others},
            ports={name: other.ports for name, other in others if self.of(name) is not None},
            disk=places.disk,
            home=places.home,
            installed=installed,
        )
        try:
            program = render(spec.program, there)
        except ValueError as error:
            raise BadInput(f"node {spec.name}: {error}") from error
        return replace(launch, spec=replace(spec, package=PACKAGE, program=None), program=program)

    # Readiness

    async def accepts(self, node: str, port: str = "", within_s: float = TRY_S) -> bool:
        """Return whether a port of the node accepts a connection of the harness's; one without ports does."""
        program = self.of(node)
        if program is None or not program.ports:
            return True
        return await self._links.try_client(HARNESS, node, within_s, port) is Reach.WORKS

    async def is_ready(self, node: str) -> bool:
        """Return whether the node is ready, as its driver has said how that is seen."""
        program = self.of(node)
        match program.ready if program is not None else None:
            case None if program is not None and not program.ports:
                return bool(await self._off(self._seats[node].machine.runs_program, node))
            case None:
                return await self.accepts(node)
            case PortAccepts(port=port):
                return await self.accepts(node, port)
            case LogSays(pattern=pattern):
                return bool(await self._off(self._seats[node].machine.says, node, pattern))
            case Answers(ask=ask):
                names = program.ports if program is not None else {}
                reached = {port: await self._links.endpoint(HARNESS, node, port) for port in names}
                with suppress(OSError, TimeoutError, EOFError):
                    async with asyncio.timeout(TRY_S):
                        return bool(await ask(reached))
        return False

    async def never_ready(self, node: str, program: Program) -> DeploymentError:
        """Return the error with which the run ends here."""
        seat = self._seats[node]
        log, listens = await self._off(seat.machine.log, node), await self._off(seat.machine.listening, node)
        hint = f" ({seat.hint})" if seat.hint else ""
        return DeploymentError(
            f"node {node} runs, but was not ready within {program.begin_s:g} s{hint}: waited for"
            f" {_awaited(program.ready, program, seat)}; it listens at {', '.join(listens) or 'no port'};"
            f" {last_words(log)}, which the run keeps as logs/{node}.log"
        )

    # What is kept

    async def keep(self, directory: Path) -> None:
        """Copy what drivers want kept into the run's directory; nodes have ended."""
        for node in self._specs:
            program = self.of(node)
            if program is not None and program.keep and node in self._seats:
                with suppress(HostLost):
                    await self._off(_keep, self._seats[node].machine, node, program, directory / "kept")


def _main(seat: Seat) -> str:
    return f"{seat.ip}:{next(iter(seat.ports.values()))}" if seat.ports else ""


def _awaited(ready: Ready | None, program: Program, seat: Seat) -> str:
    match ready:
        case LogSays(pattern=pattern):
            return f"a line of its log that matches {pattern!r}"
        case Answers(what=what):
            return what
        case PortAccepts(port=port) if port:
            return f"port {port} ({seat.ip}:{seat.ports[port]}) to accept"
    port = program.main_port
    return f"port {port} ({seat.ip}:{seat.ports[port]}) to accept" if port else "its first step"


def _keep(machine: Machine, node: str, program: Program, kept: Path) -> None:
    """Keep files of one node. Raises :class:`HostLost`; a file that goes or changes meanwhile is kept as far as it
    could be read."""
    found = machine.files(node, program.keep)
    left_out, room = [], MOST_KEPT_BYTES
    (kept / node).mkdir(parents=True, exist_ok=True)
    for number, (path, size) in enumerate(found.items()):
        if number >= MOST_KEPT_FILES or size > room:
            left_out.append(f"{path} ({size} bytes)")
            continue
        content = bytearray()
        while len(content) < size and (piece := machine.read(node, path, len(content), PIECE_BYTES)):
            content += piece
        room -= len(content)
        try:
            files_below.write(kept / node, path, bytes(content))
        except OSError as error:  # a name that this disk can't hold
            left_out.append(f"{path} ({error})")
    if left_out:
        (kept / f"{node}.left-out.txt").write_text("\n".join([*left_out, ""]), "utf-8", "backslashreplace")
