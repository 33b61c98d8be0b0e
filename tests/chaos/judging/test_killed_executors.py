"""A large run whose executors are killed one after the other is judged as if they had not been."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.judging import divided, masters
from chaos.judging.run import prepare
from chaos.judging.spark import Session
from tests.chaos.judging import spark_work
from tests.chaos.judging.test_divided import recorded as recorded
from tests.chaos.judging.test_divided import small as small
from tests.chaos.judging.test_divided import told, without_shards

pytestmark = [pytest.mark.spark, pytest.mark.full]


@pytest.mark.parametrize("stage", ["survey", "divide", "choose", "examine_bucket"])
def test_an_executor_that_is_killed_in_any_stage_changes_nothing(
    stage: str, recorded: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded["ack-before-replication"]
    wanted = told(prepare(run))
    monkeypatch.setattr(divided, stage, getattr(spark_work, stage))
    conf = {"spark.executorEnv.KILLED": str(tmp_path)}
    with Session(masters.parse("local-cluster[2,1,1024]"), conf=conf) as cluster:
        assert told(without_shards(run, cluster), cluster) == wanted
    assert (tmp_path / stage).exists()
