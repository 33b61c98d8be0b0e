"""Two small servers on the deployment that is checked, how they are asked, and the list of what is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, cast

from chaos.deployment import CanProbe, CanTellCuts, Deployment
from chaos.driver import ClusterSpec, Dials, Disconnected
from chaos.effects.links import Reach
from chaos.fault import NotNow, Undo, Verb
from chaos.node import NodeSpec
from chaos.program import LogSays, Program

ZERO, ONE = NODES = ("keeper-0", "keeper-1")
CLIENT = "check"
#: An answer that takes longer is none; what was undone shows within this time.
ANSWER_S, SHOWN_S, LOOK_S = 1.0, 20.0, 0.2
SAYS = "keeper serves at"
_SERVER = Path(__file__).with_name("keeper.py").read_bytes()


def cluster() -> ClusterSpec:
    argv = ["python3", "keeper.py", "{ip}", "{port}", "{disk}"]
    others = json.dumps({node: [f"{{ip:{node}}}", f"{{port:{node}.main}}"] for node in NODES})
    program = Program(
        argv=argv,
        files={"keeper.py": _SERVER, "conf/others.json": others},
        ports={"main": 0},
        ready=LogSays(pattern=f"^{SAYS}"),
        keep=("conf/*", "kept"),
    )
    return ClusterSpec(nodes=[NodeSpec(name=node, role="keeper", program=program) for node in NODES])


class World:
    """``problems``: what is wrong, each once. ``unchecked``: which powers this deployment does not have."""

    def __init__(self, deployment: Deployment) -> None:
        self.it = deployment
        self.problems: dict[str, None] = {}
        self.unchecked: list[str] = []

    def require(self, holds: object, problem: str) -> None:
        """Note the problem unless this holds."""
        if not holds:
            self.problems[problem] = None

    async def ask(self, node: str, do: str, *, client: str = CLIENT, **asked: object) -> Mapping[str, Any]:
        """Send one request on a fresh connection. Raises :class:`Disconnected` or ``TimeoutError``."""
        async with asyncio.timeout(ANSWER_S + 1.0 if do == "pass" else ANSWER_S):
            reader, writer = await cast(Dials, self.it).dial(client, node)
            try:
                writer.write(json.dumps({"do": do, **asked}).encode() + b"\n")
                line = await reader.readline()
            finally:
                writer.transport.abort()
        if not line:
            raise Disconnected("it closed the connection")
        found: Mapping[str, Any] = json.loads(line)
        return found

    async def serves(self, node: str, *, client: str = CLIENT) -> bool:
        try:
            await self.ask(node, "kept", client=client)
        except (Disconnected, TimeoutError, OSError):
            return False
        return True

    async def soon(self, node: str, when: str) -> None:
        """Wait until the node serves; a problem if that takes too long."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + SHOWN_S
        while not await self.serves(node):
            if loop.time() > deadline_s:
                self.require(False, f"{node} does not serve within {SHOWN_S:g} s {when}")
                return
            await asyncio.sleep(LOOK_S)

    async def probed(self, node: str, expected: bool, when: str) -> None:
        """Check what the deployment's own probe says of the node."""
        if isinstance(self.it, CanProbe):
            found = await self.it.answers(node)
            self.require(found == expected, f"answers({node}) is {found} {when}")

    async def reached(self, source: str, target: str, expected: bool, when: str) -> None:
        if isinstance(self.it, CanProbe):
            found = await self.it.reaches(source, target)
            self.require(found == expected, f"reaches({source}, {target}) is {found} {when}")
        if isinstance(self.it, CanTellCuts):
            reach = await self.it.try_link(source, target)
            right = Reach.WORKS if expected else Reach.CUT
            self.require(reach is right, f"try_link({source}, {target}) is {reach} {when}, expected {right}")

    async def undo(self, verb: Verb, subject: str) -> None:
        """Undo twice: an undo step may be repeated."""
        for _ in range(2):
            await self.it.undo(Undo(verb=verb, subject=subject))

    async def not_now(self, what: str, act: Awaitable[object]) -> None:
        """Check that this is refused by :class:`NotNow`."""
        try:
            await act
        except NotNow:
            return
        self.require(False, f"{what} has to raise NotNow")

    def proof(self, what: str, found: object) -> None:
        """Check that evidence is JSON, as which it goes into the history."""
        try:
            json.dumps(dict(cast(Mapping[str, object], found)))
        except (TypeError, ValueError) as error:
            self.require(False, f"{what} returned {found!r}, expected a mapping that is JSON: {error}")
