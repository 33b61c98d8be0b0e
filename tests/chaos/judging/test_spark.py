"""One session on two cores: what happens to a job whose workers die, whose user has enough, or that is followed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from chaos.errors import MachineError
from chaos.judging import engine, masters
from chaos.judging.engine import RunInput, judge
from chaos.judging.spark import Session
from chaos.verdict import Validity
from tests.chaos.judging import spark_work
from tests.chaos.judging.test_engine import CONTEXT, busy

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(masters.parse("local[2]")) as opened:
        yield opened


def test_a_worker_that_is_killed_costs_one_more_try(session: Session, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    marker = str(tmp_path / "killed")
    found = session.map(spark_work.dies_once, [marker] * 4, lambda done, whole: told.append((done, whole)))
    assert found == ["lived"] * 4 and Path(marker).exists()
    assert told[-1] == (4, 4) and [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_shard_that_no_worker_survives_leaves_its_own_run_unknown_and_no_other(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = []
    for name in ("sound", "poison"):
        (tmp_path / name).mkdir()
        pq.write_table(busy(3).table(), tmp_path / name / "all-0.parquet")
        inputs.append(RunInput(context=CONTEXT, shards=[tmp_path / name / "all-0.parquet"]))
    alone = judge(inputs[:1], engine="local")[0]
    monkeypatch.setattr(engine, "_examine_path", spark_work.examine_unless_poisoned)
    sound, poisoned = judge(inputs, engine="spark", session=session)
    assert sound == alone
    assert {verdict.validity for verdict in poisoned} == {Validity.UNKNOWN}
    assert "a Python worker died each time" in poisoned[0].why


def test_a_job_is_cancelled_when_its_user_has_enough_and_the_next_one_runs(session: Session) -> None:
    def enough(done: int, whole: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session.map(spark_work.sleep, [60.0] * 8, enough)
    deadline_s = time.monotonic() + 30
    while session._context.statusTracker().getActiveJobsIds() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert session._context.statusTracker().getActiveJobsIds() == [], "it ends long before its tasks would"
    assert session.map(abs, [-1, -2]) == [1, 2]


def test_a_master_that_is_not_there_is_said_before_anything_starts() -> None:
    with Session(masters.parse("spark://127.0.0.1:1")) as session:
        with pytest.raises(MachineError, match=r"no Spark master can be reached at spark://127\.0\.0\.1:1 .*refused"):
            session.wait()
