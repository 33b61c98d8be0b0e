"""A fault that waits for an event fires so long after it, and hits the node that traced it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc

from chaos.experiment.reader import load
from chaos.history.history import History
from stormproof.launch import Launch, start

STORM = """\
name: event
system: {reference: {controllers: 1, queues: 1, tier: false}}
duration: 6s
workloads: [queue: {producers: 1, consumers: 1, rate_per_s: 20}]
faults:
  - switch: {}
    at: [1s, 3s]
  - pause: {target: event_node}
    when: {event: role, node: slave, times: 2, gap: 1500ms, delay: 70ms}
    for: 300ms
"""


def test_a_fault_hits_the_node_of_its_event_after_a_delay(tmp_path: Path) -> None:
    (tmp_path / "event.yaml").write_text(STORM)
    experiment = load(tmp_path / "event.yaml", deployment="sim")
    run = start(
        Launch(experiment=experiment, file=tmp_path / "event.yaml", deployment="sim", seed=1, mutant="", out=tmp_path)
    )
    rows, _ = History.open(run).recorded()
    pauses = rows.filter(pc.and_(pc.equal(rows["f"], "pause"), pc.equal(rows["type"], "invoke"))).to_pylist()
    roles = rows.filter(pc.equal(rows["f"], "role")).to_pylist()
    assert len(pauses) == 2
    for pause in pauses:
        begun = [role for role in roles if role["node"] == pause["node"] and role["time_ns"] < pause["time_ns"]]
        assert round((pause["time_ns"] - begun[-1]["time_ns"]) / 1e6) == 70
