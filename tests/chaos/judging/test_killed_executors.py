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


def test_an_executor_that_is_killed_in_each_stage_changes_nothing(
    recorded: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, stages = recorded["ack-before-replication"], ("survey", "divide", "choose", "examine_bucket")
    wanted = told(prepare(run))
    (tmp_path / "killed").mkdir()
    for stage in stages:
        monkeypatch.setattr(divided, stage, getattr(spark_work, stage))
    conf = {"spark.executorEnv.KILLED": str(tmp_path / "killed"), "spark.deploy.maxExecutorRetries": "-1"}
    with Session(masters.parse("local-cluster[2,1,1024]"), conf=conf) as cluster:
        assert told(without_shards(run, cluster), cluster) == wanted
    assert {path.name for path in (tmp_path / "killed").iterdir()} == {*stages}
