"""A queue is one member's in each generation of its group, as members are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from chaos.driver import Profile
from chaos.history.run_meta import RunMeta
from chaos.judging.divided import shards
from chaos.judging.engine import judge_rows
from chaos.judging.plan import plan
from chaos.judging.registry import Registry
from chaos.law import RowType, RunContext
from chaos.operations import FaultRow, Heartbeat, Join, Leave
from chaos.testing.laws import check_law, history_of
from chaos.verdict import Validity, Verdict
from checkers.consumers.owners import Owners
from checkers.consumers.promise import DOUBLE_OWNER
from tests.drivers.toy_logs import ToyLogs
from tests.workloads.played import judged
from workloads import group

REGISTRY = Registry({("consumers", 0): Owners()}, {})


def context(**meta: Any) -> RunContext:
    return RunContext(run="r", seed=1, meta=RunMeta(uses=frozenset(("queues", "logs")), **meta))


CONTEXT = context()


@dataclass
class Members:
    """What members of groups ask, and what they are told."""

    rows: list[tuple[RowType, Mapping[Any, object]]] = field(default_factory=list)

    def _add(self, cls: RowType, **fields: Any) -> int:
        self.rows.append((cls, {getattr(cls, name): value for name, value in fields.items()}))
        return len(self.rows) - 1

    def told(
        self,
        name: str,
        generation: int,
        *queues: int,
        cls: RowType = Join,
        of: str = "g",
        type: str = "ok",
        **more: Any,
    ) -> Members:
        """A member asks, and is told that these queues are its own."""
        who = {"process": f"{name}.0", "group": of}
        op = self._add(cls, type="invoke", **who)
        self._add(cls, type=type, op=op, generation=generation, queues=[*queues], **who, **more)
        return self

    def beat(self, name: str, generation: int, *queues: int, **more: Any) -> Members:
        return self.told(name, generation, *queues, cls=Heartbeat, **more)

    def leave(self, name: str, type: str = "ok") -> Members:
        op = self._add(Leave, type="invoke", process=f"{name}.0", group="g")
        self._add(Leave, type=type, op=op, process=f"{name}.0", group="g")
        return self

    def wipe(self) -> Members:
        self._add(FaultRow, type="invoke", process="wipe-0", targets=["n1"])
        return self

    def table(self) -> pa.Table:
        return history_of(self.rows)

    def judge(self, run: RunContext = CONTEXT, most: int = 0) -> Verdict:
        table = self.table()
        parts: Sequence[Any] = [("all-0", table)]
        if most:
            parts = [*shards([table], plan(REGISTRY.kernels, run.meta), most)]
        (verdict,) = judge_rows(parts, run, REGISTRY)
        return verdict


BAD = [
    Members().told("a", 3, 0, 1).told("b", 3, 1),
    Members().told("a", 3, 0, 1).told("b", 3).beat("b", 3, 0),
    Members().told("a", 3, 0).told("b", 3, 1).beat("a", 3, 0).beat("b", 3, 1, 0),
    Members().told("a", 3, 0).told("a", 4, 1).told("b", 4, 1).told("a", 4, 1),
    Members().told("a", 0, 0).leave("c").told("b", 0, 0),
    Members().told("a", 3, 0).told("a", 3, type="fail").told("b", 3, 0),  # it may be asked again
    Members().told("a", 3, 0).told("a", 4, 0, type="info").told("b", 3, 0),
]
NEAR_MISS = [
    Members().told("a", 3, 0).told("b", 4, 0),  # it stood still, and does not know yet
    Members().told("a", 3, 0).told("b", 3, 1),
    Members().told("a", 3, 0).told("b", 3, 0, of="h"),
    Members().told("a", 3, 0).beat("a", 3).told("b", 3, 0),  # it gave the queue back
    Members().told("a", 3, 0).leave("a").told("b", 3, 0),
    Members().told("a", 3, 0).leave("a", "info").told("b", 3, 0),
    Members().told("a", 3, 0).beat("a", 3, type="fail", fenced=True).told("b", 3, 0),
    Members().told("a", 3, 0).told("a", 3, 0).beat("a", 3, 0),
    Members().told("a", -1, 0).told("b", -1, 0),  # a group that has no generations
    Members().told("a", 3, 0).told("b", 3, 0, type="info").told("b", 3, 0, type="fail"),
]


def test_the_law_keeps_its_contract() -> None:
    bad = [(history.table(), [DOUBLE_OWNER]) for history in BAD]
    check_law(Owners(), bad=bad, near_miss=[history.table() for history in NEAR_MISS], context=CONTEXT)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_it_says_who_was_given_what_in_however_many_shards(most: int) -> None:
    history = Members().told("a", 3, 0, 1).told("x", 3, 0, of="h").told("b", 3, 1, 0)
    first, second = history.judge(most=most).anomalies
    assert (first.rows, first.queue, second.queue) == ((1, 5), 0, 1)
    assert "Group g gave queue 0 in generation 3 to a.0 at " in first.explanation


def test_where_generations_may_be_forgotten_it_is_unknown() -> None:
    weak = context(profile=Profile(acks="master", unclean=True))
    history = Members().told("a", 3, 0).wipe().told("b", 3, 0)
    assert history.judge(weak).validity is Validity.UNKNOWN
    assert history.judge().validity is Validity.INVALID
    assert BAD[0].judge(weak).validity is Validity.INVALID


def test_values_of_other_kinds_are_passed_over() -> None:
    odd = Members().told("a", 3, *[[0], "1", None]).told("b", 3, 1)  # type: ignore[arg-type]
    assert odd.judge().validity is Validity.VALID


@pytest.mark.parametrize(("bug", "found"), [("", []), ("double-owner", [DOUBLE_OWNER])])
def test_a_planted_bug_is_found(bug: str, found: list[str]) -> None:
    played = judged(ToyLogs(bug) if bug else ToyLogs(), group.create(group.Options(change_s=1.5)), seconds=6.0)
    assert played.violations.get("consumers", []) == found
    assert played.verdicts["consumers"].counts["group_claims"] > 5
