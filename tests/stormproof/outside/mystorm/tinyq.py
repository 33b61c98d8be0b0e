"""tinyq as the tests run it: what `stormproof new driver` begins with, but its server comes with its nodes instead of
by a recipe, its backup may garble what it stores, and clients may be programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from chaos.api import (
    ClientCommand,
    ClusterSpec,
    ClusterView,
    Dials,
    Evidence,
    LogSays,
    Mutant,
    Network,
    NodeSpec,
    Profile,
    Program,
    Record,
)
from stormproof.driver_package.stormproof_tinyq import driver
from stormproof.driver_package.stormproof_tinyq.driver import BACKUP, PRIMARY, Options

SERVER = Path(__file__).with_name("tinyq_server.py").read_bytes()
CONFIG = '{"listen": ["{ip}", {port}], "disk": "{disk}", "backup": %s, "lazy": %s, "garbled": %s}'
GARBLED = Mutant(name="garbled", law="agreement", stands_for="a backup that stores something else than it was sent")
MUTANTS = (*driver.MUTANTS, GARBLED)


def program(backup: str = "", *, lazy: bool = False, garbled: bool = False) -> Program:
    where = f'["{{ip:{backup}}}", {{port:{backup}.queue}}]' if backup else "null"
    return Program(
        argv=["python3", "tinyq_server.py", "conf/tinyq.json"],
        files={"tinyq_server.py": SERVER, "conf/tinyq.json": CONFIG % (where, *map(json.dumps, (lazy, garbled)))},
        ports={"queue": 0},
        ready=LogSays(pattern="^tinyq serves"),
        keep=("log", "conf/*"),
    )


class Tinyq(driver.TinyqDriver):
    def cluster(self, mutant: str) -> ClusterSpec:
        nodes = [
            NodeSpec(name=PRIMARY, role="broker", program=program(BACKUP, lazy=mutant == "lazy")),
            NodeSpec(name=BACKUP, role="broker", program=program(garbled=mutant == "garbled")),
        ]
        return ClusterSpec(nodes=nodes)

    def profile(self) -> Profile:
        return Profile()

    def evidence(self) -> frozenset[Evidence]:
        """Declare nothing: laws are tried with what clients see alone."""
        return frozenset()

    async def view(self, network: Network, record: Record | None = None) -> ClusterView:
        return await super().view(network)

    async def client_command(self, network: Network, name: str) -> ClientCommand:
        host, port = await cast(Dials, network).endpoint(name, PRIMARY)
        return ClientCommand(argv=["python3", str(Path(__file__).with_name("tinyq_client.py")), host, str(port)])


def create(options: Options) -> Tinyq:
    return Tinyq()
