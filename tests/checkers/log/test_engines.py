"""Spark and the engine of one process find in logs and transactions what is found in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pyarrow as pa
import pytest

from benchmarks.laws import ours
from chaos.history.pieces import Held
from chaos.judging import masters
from chaos.judging.divided import Divided
from chaos.judging.engine import judge_rows, verdicts
from chaos.judging.in_process import InProcess
from chaos.judging.layout import Layout
from chaos.judging.plan import WHOLE, plan
from chaos.judging.spark import Session
from chaos.law import RunContext
from chaos.verdict import Validity, Verdict
from tests.checkers.isolation.logged import CONTEXT as OF_TRANSACTIONS
from tests.checkers.isolation.test_random_logs import Drawn
from tests.checkers.log.logs import CONTEXT as OF_LOGS
from tests.checkers.log.random_logs import logs
from tests.drivers.toy_logs import ToyLogs
from tests.workloads.played import judged, table_of
from workloads import log, transactions

#: A history has so many pieces, and about so many shards of each part.
PIECES = 4
BUGS = ("", "aborted-readable", "output-without-offset", "poll-skip")

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session(masters.parse("local[2]")) as opened:
        yield opened


def checked(table: pa.Table, context: RunContext, session: Session) -> tuple[Verdict, ...]:
    """Return the verdicts of both laws, which are the same in one piece and of both engines."""
    known = ours.chosen(*ours.LOGS)
    layout = Layout(meta=context.meta, plan=plan(known.kernels, context.meta))
    whole = judge_rows([(WHOLE, table)], context, known)
    size = max(1, -(-table.num_rows // PIECES))
    pieces = [Held(table.slice(begin, size)) for begin in range(0, table.num_rows, size)]
    with InProcess() as here:
        for engine in (here, session):
            found = Divided(engine, pieces, layout, most=size).examine(context, known=known)
            assert verdicts(context, found, known) == whole, type(engine).__name__
    return whole


@pytest.mark.parametrize("bug", [BUGS[0], *(pytest.param(bug, marks=pytest.mark.full) for bug in BUGS[1:])])
@pytest.mark.parametrize("assigns", [False, True])
def test_recorded_runs(bug: str, assigns: bool, session: Session) -> None:
    options = transactions.Options(crashes=0.1, races=0.1, fences=0.1)
    workload = log.create(log.Options(assign=0.2, seek=0.2)) if assigns else transactions.create(options)
    played = judged(ToyLogs(bug), workload)
    found = checked(table_of(played.play), played.context, session)
    assert found == tuple(played.verdicts[one.law] for one in found) and len(found) == len(ours.LOGS)
    assert bool(bug and "log" in played.violations) == any(one.validity is Validity.INVALID for one in found)


@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.full)])
def test_random_histories(count: int, session: Session) -> None:
    seen = set()
    for seed in range(count):
        made = ((logs(Random(f"engines {seed}")).table(), OF_LOGS), (Drawn(seed).play().table(), OF_TRANSACTIONS))
        for table, context in made:
            if table.num_rows:
                seen |= {one.validity for one in checked(table, context, session)}
    assert Validity.INVALID in seen
