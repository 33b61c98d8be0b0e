"""One session on two cores: what happens to a job whose workers die, whose user has enough, or that is followed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.errors import MachineError
from chaos.judging import masters, run
from chaos.judging.run import examine_run, examine_runs
from chaos.judging.spark import Session
from chaos.verdict import Validity
from tests.chaos.judging import spark_work
from tests.chaos.judging.test_engine import busy
from tests.chaos.judging.test_many_runs import META, judged
from tests.stormproof import strangers

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]


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


def test_a_run_that_no_worker_survives_is_unknown_and_no_other(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [strangers.recorded(tmp_path / name, busy(3).recorded(), **META) for name in ("poison", "sound")]
    wanted = judged(map(examine_run, runs))
    told: list[tuple[int, int]] = []
    assert judged(examine_runs(runs, session=session, on_progress=lambda *done: told.append(done))) == wanted
    assert told[-1] == (2, 2)
    monkeypatch.setattr(run, "_if_small", spark_work.if_small_and_no_poison)
    poisoned, sound = judged(examine_runs(runs, session=session))
    assert poisoned.validity is Validity.UNKNOWN and "a Python worker died each time" in poisoned.why[0]
    assert sound == wanted[1] and sound.validity is Validity.INVALID


#: Judges runs on Spark and without it: small ones together, and one as if it were large.
BOTH = """
import sys
from pathlib import Path
from chaos.history import pieces, segments
from chaos.judging.outcome import judge
from chaos.judging.run import examine_run, examine_runs
from chaos.judging.spark import Session

runs = [*map(Path, sys.argv[1:])]
here = examine_runs(runs)
with Session() as session:
    there = examine_runs(runs, session=session)
    pieces.LARGE_ROWS, segments.SEGMENT_ROWS = 500, 200
    there.append(examine_run(runs[0], session=session))
found = [[verdict.laws for verdict in judge(some, engine="spark", write=False)] for some in (there, [*here, here[0]])]
assert found[0] == found[1]
print(len(found[0]))
"""


def test_spark_finds_what_is_found_without_it_even_beside_a_foreign_checkers_folder(tmp_path: Path) -> None:
    (tmp_path / "checkers").mkdir()
    (tmp_path / "checkers" / "__init__.py").write_text("raise SystemError('the wrong package')")
    runs = [strangers.recorded(tmp_path / f"run-{seed}", busy(seed).recorded(), **META) for seed in range(3)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BOTH, *map(str, runs)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["4"]


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
