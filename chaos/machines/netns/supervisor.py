"""The supervisor of a run in network namespaces: it makes them, and is the way into them for the harness outside.

It listens for commands where it was started, then goes into namespaces of its own. A socket belongs to the namespace in
which it was made, no matter who holds it. So the harness asks on a channel for sockets made inside, and its own
connections begin there, and hands in listening ports from outside, whose connections are carried to the nodes. The
namespaces end with this process, the nodes, and those sockets.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from chaos.errors import MachineError
from chaos.machines.agent.commands import LIVES, SLOW, Agent
from chaos.machines.dials import Address
from chaos.machines.local.supervisor import PROBLEM, Charge, Supervisor, prepare, publish
from chaos.machines.netns.namespaces import World
from chaos.machines.proxy import HOST

#: The longest name of a node that the channel takes.
MAX_NAME_BYTES = 4096
CHUNK_BYTES = 1 << 16


class WorldAgent(Agent):
    """The commands on nodes, each of which lives in its namespace."""

    def __init__(self, world: World, run: Path, environment: Mapping[str, str]) -> None:
        super().__init__(run, environment, shelters=True)
        self._world = world

    def do_start(self, launch: Mapping[str, Any], port: int) -> None:
        with self._world.inside(str(launch["spec"]["name"])):
            super().do_start(launch, port)


class WorldSupervisor(Supervisor):
    """``channel``: what the harness asks sockets on; see :func:`hand_out`."""

    slow = SLOW | {"root"}

    def __init__(self, charge: Charge, control: socket.socket, channel: socket.socket, world: World) -> None:
        super().__init__(charge, WorldAgent(world, Path(charge.directory), os.environ), control)
        self._world = world
        self._doors: list[asyncio.Server] = []
        self._channel = channel
        self._handed_in: dict[str, socket.socket] = {}
        threading.Thread(target=hand_out, args=(channel, world, self._handed_in), daemon=True).start()

    async def do_admit(self, ports: Mapping[str, int]) -> dict[str, str]:
        """Make a namespace for each of these nodes, to whose port the one leads that was handed in for it; return
        their addresses."""
        addresses = await asyncio.to_thread(self._world.add, list(ports))
        for node, address in addresses.items():
            self._doors.append(await door(self._handed_in.pop(node), (address, ports[node])))
        return addresses

    def do_root(self, node: str, command: Sequence[str], given: str) -> tuple[int, str]:
        """Run a tool that rules the node's network: its exit code and output."""
        return self._world.run(node, command, given)


def hand_out(channel: socket.socket, world: World, handed_in: dict[str, socket.socket]) -> None:
    """Answer each name on the channel by a new socket in that node's namespace, or take the port that comes with it;
    until the harness has ended."""
    with channel, suppress(OSError):
        while True:
            data, descriptors, _, _ = socket.recv_fds(channel, MAX_NAME_BYTES, 1)
            if not data:
                return
            node = data.decode().removeprefix("=")
            if descriptors:
                handed_in[node] = socket.socket(fileno=descriptors[0])
                channel.send(data)
                continue
            with world.inside(node), socket.socket() as made:
                socket.send_fds(channel, [data], [made.fileno()])


async def door(port: socket.socket, address: Address) -> asyncio.Server:
    """Carry what comes to a port outside to the node at this address."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*address)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))

    return await asyncio.start_server(carry, sock=port)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Carry bytes one way until either side ends."""
    try:
        while data := await source.read(CHUNK_BYTES):
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


def main() -> None:
    charge = Charge(**json.loads(sys.argv[1]))
    control, channel = socket.create_server((HOST, 0)), socket.socket(fileno=int(sys.argv[2]))
    try:
        prepare(charge)
        world = World(Path(charge.directory) / LIVES / "xtables.lock")
    except MachineError as error:
        publish(charge, **{PROBLEM: str(error)})
        return

    async def serve() -> None:
        await WorldSupervisor(charge, control, channel, world).serve()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
