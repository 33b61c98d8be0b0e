"""The node that docs/plugins/node.md shows works as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from chaos.deployments import sim
from chaos.driver import ClusterSpec
from chaos.fault import Undo, Verb
from chaos.node import NodeSpec
from chaos.plain import PlainCodec, PlainMessage

PAGE = Path(__file__).parents[2] / "docs/plugins/node.md"


def test_the_shown_node_keeps_what_it_acknowledged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0]
    counter = ModuleType("counter")
    exec(compile(code, str(PAGE), "exec"), vars(counter))
    monkeypatch.setitem(sys.modules, "counter", counter)
    world = sim.create(run_id="page", directory=tmp_path, seed=1)

    async def script() -> int:
        node = NodeSpec(name="counter-0", role="counter", package="counter")
        await world.start(ClusterSpec(nodes=(node,), codec=PlainCodec()), lambda row: None)
        connection = world.connect("client", "counter-0")
        for number in (b"5", b"7"):
            assert not (await connection.request(PlainMessage(kind=counter.ADD, body=number), 1.0)).error
        refused = await connection.request(PlainMessage(kind=counter.ADD, body=b"x"), 1.0)
        assert refused.error == "b'x' is not a number"
        await world.kill("counter-0")
        await world.undo(Undo(verb=Verb.START, subject="counter-0"))
        assert int((await connection.request(PlainMessage(kind=counter.TOTAL), 1.0)).body) == 12
        await world.stop()
        return 0

    assert world.execute(script()) == 0
