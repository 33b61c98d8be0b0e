"""A workload that asks more of a driver than queues is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.errors import BadInput
from chaos.experiment.reader import load
from drivers.reference.driver import Reference

TEXT = "system: reference\nduration: 5s\nworkloads:\n  - queue\n  - {}\n"


@pytest.mark.parametrize("name", ["register", "lock"])
def test_a_driver_without_objects_is_named_with_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / "storm.yaml"
    path.write_text(TEXT.format(name))
    assert [use.name for use in load(path, deployment="sim").workloads] == ["queue", name]
    monkeypatch.delattr(Reference, "objects")
    with pytest.raises(BadInput) as refused:
        load(path, deployment="sim")
    assert f"storm.yaml:5: workloads: {name}: it needs a system whose driver has CanHoldObjects" in str(refused.value)
