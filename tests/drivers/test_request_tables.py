"""Nodes read of requests what the tables of the wire say, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chaos.deployments import sim
from chaos.driver import Disconnected, Profile
from chaos.effects.links import HARNESS
from drivers.reference.conformance.malformed import right_request
from drivers.reference.driver import Options, create
from reference.wire.codes import Request
from reference.wire.command import Command
from reference.wire.requests import BROKER, CONTROLLER, FORMS, LEADER, MASTER, METADATA_FORMS, NAMESERVER, STORE, Form

#: The only node of each role, where it is both master and leader.
NODES = {MASTER: "broker-0", BROKER: "broker-0", LEADER: "controller-0", CONTROLLER: "controller-0"} | {
    NAMESERVER: "nameserver-0",
    STORE: "store-0",
}


class Fields(dict[str, str]):
    """Header fields that remember which of them were looked for."""

    def __init__(self, *fields: Any) -> None:
        super().__init__(*fields)
        self.seen: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.seen.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.seen.add(str(key))
        return super().__contains__(key)


def looked_for(forms: dict[Request, Form], tmp_path: Path, **options: Any) -> dict[Request, set[str]]:
    """Return the fields that nodes look for in a request that they understand."""
    options_ = Options(controllers=1, brokers=1, queues=1, **options)
    driver = create(options_).promising(Profile(min_in_sync=1))
    world = sim.create(run_id="tables", directory=tmp_path, seed=1)
    found: dict[Request, set[str]] = {}

    async def script() -> int:
        await world.start(driver.cluster(""), lambda row: None)
        network = world
        while not (await driver.view(network)).settled:
            await asyncio.sleep(0.1)
        for request, form in forms.items():
            right = right_request(request, form, "storm")
            fields = Fields(right.fields)
            asked = Command(code=request, fields=fields, body=right.body)
            fields.seen.clear()
            try:
                await network.connect(HARNESS, NODES[form.to]).request(asked, 3.0)
            except (TimeoutError, Disconnected):
                pass
            found[request] = fields.seen
        await world.stop()
        return 0

    assert world.execute(script()) == 0
    return found


@pytest.mark.parametrize(("forms", "metadata"), [(FORMS, False), (METADATA_FORMS, True)])
def test_a_node_looks_for_the_fields_of_the_table(forms: dict[Request, Form], metadata: bool, tmp_path: Path) -> None:
    found = looked_for(forms, tmp_path, metadata=metadata)
    otherwise = {request.name: seen ^ {*forms[request].fields} for request, seen in found.items()}
    assert not {name: fields for name, fields in otherwise.items() if fields}
    assert len(otherwise) == len(forms)
