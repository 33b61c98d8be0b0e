"""A large run whose executors are killed one after the other is judged as if they had not been."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.judging import divided, masters
from chaos.judging.run import examine_run
from chaos.judging.spark import Session
from tests.chaos.judging import spark_work
from tests.chaos.judging.test_divided import BUG, in_one_piece, verdict_of
from tests.chaos.judging.test_divided import recorded as recorded
from tests.chaos.judging.test_divided import small as small

pytestmark = [pytest.mark.spark, pytest.mark.full]
#: Where executors find the tests.
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("stage", ["survey", "divide", "chosen", "examine_bucket"])
def test_an_executor_that_is_killed_in_any_stage_changes_nothing(
    stage: str, recorded: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = in_one_piece(recorded[BUG])
    monkeypatch.setattr(divided, stage, getattr(spark_work, stage))
    conf = {"spark.executorEnv.KILLED": str(tmp_path), "spark.executorEnv.PYTHONPATH": str(ROOT)}
    with Session(masters.parse("local-cluster[2,1,1024]"), conf=conf) as cluster:
        assert verdict_of(examine_run(recorded[BUG], session=cluster)) == wanted
    assert (tmp_path / stage).exists()
