"""An operator of RocketMQ, who switches masters with ``mqadmin electMaster``. What counts is what the tool says."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from functools import partial

from chaos.driver import ClientCommand, Dials
from chaos.errors import DeploymentError
from chaos.ops import Answer, Failed, Unknown
from chaos.recipe import Recipe
from chaos.shell.parent import die_with
from drivers.rocketmq import java_clients, polls
from drivers.rocketmq.cluster import CLUSTER, Cluster

#: How long the tool may take, whose start alone takes a second or two.
TOOL_S = 60.0
SHOWN = 300
#: The line that it prints of a new master.
DONE = "#MasterEpoch"
#: What it says of a command that failed; and the causes after which it is unknown what the controllers did.
FAILED, UNANSWERED = "SubCommandException", ("RemotingTimeoutException", "RemotingConnectException", "SendRequest")


class Operator:
    """Implements :class:`chaos.services.Operator`. Each switch is a run of the tool."""

    def __init__(self, network: Dials, name: str, cluster: Cluster, installed: Recipe) -> None:
        self._network = network
        self._name = name
        self._cluster = cluster
        self._installed = installed
        self.groups = tuple(cluster.groups)

    async def elect(self, group: str, target: str) -> Answer:
        leader, found = await polls.controllers(self._network, self._cluster)
        broker = found[group].ids.get(target) if leader else None
        if broker is None:
            raise Failed(f"no controller leads, or it doesn't know {target}")
        command = await java_clients.admin_tool(self._network, self._name, self._cluster, self._installed, leader)
        arguments = ("-c", CLUSTER, "-bn", group, "-b", str(broker))
        said, complained = await _run(ClientCommand(argv=(*command.argv, *arguments)))
        result = Answer(node=leader)
        if DONE in said:
            return result
        reason = "mqadmin: " + " ".join(
            line.strip() for line in complained.splitlines() if FAILED in line or "Caused" in line
        )
        if FAILED in complained and not any(cause in complained for cause in UNANSWERED):
            raise Failed(reason[:SHOWN], result)
        raise Unknown((reason if FAILED in complained else f"mqadmin said nothing of it: {complained}")[:SHOWN], result)

    async def find_master(self, group: str) -> Answer:
        leader, found = await polls.controllers(self._network, self._cluster)
        if not leader:
            raise Failed("no controller leads")
        seen = found[group]
        return Answer(node=leader, value={"master": seen.master, "epoch": seen.epoch, "in_sync": list(seen.in_sync)})


async def _run(command: ClientCommand) -> tuple[str, str]:
    """Run a program and return what it prints, on its output and as its errors. It ends when its time is over, with all
    that it started. Raises :class:`Unknown` then."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command.argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **command.env},
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),
        )
    except OSError as error:
        raise DeploymentError(f"RocketMQ's admin tool can't be started: {error}") from error
    try:
        said = await asyncio.wait_for(process.communicate(), TOOL_S)
    except TimeoutError as error:
        raise Unknown(f"mqadmin did not end within {TOOL_S:g} s") from error
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    return said[0].decode("utf-8", "replace"), said[1].decode("utf-8", "replace")
