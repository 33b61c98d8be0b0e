"""Views of metadata: what a node shows is a prefix of the log, never a shorter one, and in the end all of it."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.judging.registry import registry
from chaos.testing.laws import check_law
from chaos.verdict import Validity
from tests.checkers.histories import History
from tests.checkers.names import A, L

VIEWS = L.WATCHED_VIEWS


class Run(History):
    """With rows about metadata. The content of a change is 100 + its revision unless it is given."""

    def change(self, entry: str, revision: int, version: int, *, content: int = 0, node: str = "controller-0") -> None:
        told = {"object": entry, "version": version, "revision": revision, "content": content or 100 + revision}
        self.trace(node, "metadata", position=revision, value=told)

    def look(self, entry: str) -> int:
        return self.invoke("view", process="reader.0", value={"object": entry, "to": "nameserver-0"})

    def seen(
        self, asked: int, version: int, content: int, *, knew: int = -1, node: str = "nameserver-0", type: str = "ok"
    ) -> None:
        told = {"version": version, "content": content, **({"revision": knew} if knew >= 0 else {})}
        self.complete(asked, type, node=node, value=told if type == "ok" else {})

    def view(self, entry: str, version: int, content: int, *, knew: int = -1, node: str = "nameserver-0") -> None:
        asked = self.invoke("view", process="reader.0", value={"object": entry, "to": node})
        self.seen(asked, version, content, knew=knew, node=node)

    def agreed(self, revision: int) -> None:
        """A client is told of this revision by the log."""
        asked = self.invoke("read", process="client.0", value={"object": "topic/t", "to": "controller-0"})
        self.complete(asked, node="controller-0", value={"revision": revision})

    def end(self) -> Run:
        self.phase("recover")
        self.recovered()
        self.phase("drain")
        return self


def run(**meta: Any) -> Run:
    """Revisions 1 to 4: t is made, u is made, t is changed, t is deleted."""
    it = Run(meta={"uses": ["objects", "metadata"], **meta})
    it.phase("load")
    it.change("topic/t", 1, 1)
    it.change("topic/u", 2, 1)
    it.change("topic/t", 3, 2)
    it.change("topic/t", 4, 3, content=-1)
    return it


def finished(it: Run) -> Run:
    """All that was agreed on is shown in the end."""
    it.agreed(4)
    it.end().view("topic/t", 3, -1, knew=4)
    return it


def test_what_a_node_shows_is_what_the_log_said_after_some_revision() -> None:
    it = run()
    for knew in (-1, 0):
        it.view("topic/t", 0, -1, knew=knew)
    for knew in (-1, 1, 2):
        it.view("topic/t", 1, 101, knew=knew)
    it.view("topic/u", 1, 102)
    it.view("topic/absent", 0, -1, knew=3)
    it.view("topic/t", 1, 101, node="nameserver-1")  # another node is not as far
    finished(it).view("topic/t", 3, -1, node="nameserver-1")
    verdict = it.expect(VIEWS, validity=Validity.VALID)
    assert verdict.counts == {"changes": 4, "views": 10}


@pytest.mark.parametrize(
    ("entry", "version", "content", "knew", "words"),
    [
        ("topic/t", 4, 7, -1, "the log does not hold"),
        ("topic/absent", 1, 7, -1, "the log does not hold"),
        ("topic/t", 0, 7, -1, "the log does not hold"),
        ("topic/t", 2, 7, -1, "another content"),
        ("topic/t", 1, 101, 3, "after revision 3"),
        ("topic/t", 2, 103, 2, "after revision 2"),
        ("topic/t", 0, -1, 1, "the log does not hold"),
        ("topic/t", 3, -1, 5, "after revision 5"),
    ],
)
def test_what_no_prefix_of_the_log_holds_is_told(entry: str, version: int, content: int, knew: int, words: str) -> None:
    it = run()
    it.view(entry, version, content, knew=knew)
    verdict = finished(it).expect(VIEWS, A.VIEW_NOT_A_PREFIX, validity=Validity.INVALID)
    assert words in verdict.anomalies[0].explanation


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("topic/t", 2, 103, -1), ("topic/t", 1, 101, -1)),
        (("topic/t", 2, 103, -1), ("topic/u", 0, -1, -1)),  # of another entry, which changed before
        (("topic/u", 1, 102, 3), ("topic/u", 1, 102, 2)),  # it says so itself
        (("topic/u", 1, 102, 3), ("topic/t", 1, 101, -1)),
    ],
)
def test_a_view_that_goes_back_is_told(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    it = run()
    for entry, version, content, knew in (first, second):
        it.view(entry, version, content, knew=knew)
    verdict = finished(it).expect(VIEWS, A.VIEW_WENT_BACK, validity=Validity.INVALID)
    assert len(verdict.anomalies[0].rows) == 4


def test_answers_to_questions_at_one_time_may_come_in_any_order() -> None:
    it = run()
    early, late = it.look("topic/t"), it.look("topic/t")
    it.seen(late, 2, 103, knew=3)
    it.seen(early, 1, 101, knew=1)
    finished(it).expect(VIEWS, validity=Validity.VALID)


def test_a_node_has_to_catch_up_within_the_bound() -> None:
    it, slow = run(), run()
    for history in (it, slow):
        history.agreed(4)
        history.end().view("topic/t", 2, 103, knew=3)
    slow.expect(VIEWS, validity=Validity.UNKNOWN)  # nobody asked again
    it.wait(6).view("topic/t", 2, 103, knew=3)  # type: ignore[attr-defined]
    it.expect(VIEWS, A.VIEW_BEHIND, validity=Validity.INVALID)
    slow.wait(4).view("topic/t", 3, -1, knew=4)  # type: ignore[attr-defined]
    slow.expect(VIEWS, validity=Validity.VALID)
    bound = run(bounds={"route_s": 3})
    bound.agreed(4)
    bound.end().wait(4)
    bound.view("topic/u", 1, 102, knew=2)
    bound.expect(VIEWS, A.VIEW_BEHIND)


def test_what_is_agreed_on_later_need_not_be_shown() -> None:
    it = run()
    it.agreed(3)
    it.end().agreed(4)
    it.wait(6).view("topic/t", 2, 103, knew=3)  # type: ignore[attr-defined]
    it.expect(VIEWS, validity=Validity.VALID)


def test_who_was_not_asked_or_not_answered_in_the_end_proves_nothing() -> None:
    silent, unrecovered = run(), run()
    finished(silent).seen(silent.look("topic/t"), 0, 0, type="fail")
    silent.invoke("view", process="other.0", value={"object": "topic/t", "to": "nameserver-1"})
    assert "nameserver-1" in silent.expect(VIEWS, validity=Validity.UNKNOWN).why
    unrecovered.view("topic/t", 3, -1, knew=4)
    assert "recover" in unrecovered.expect(VIEWS, validity=Validity.UNKNOWN).why


@pytest.mark.parametrize(
    ("asks", "apart_s", "last", "validity"),
    [
        (4, 2, "fail", Validity.INVALID),
        (4, 1, "fail", Validity.UNKNOWN),  # for less than the bound
        (2, 6, "fail", Validity.UNKNOWN),  # too few
        (4, 2, "info", Validity.UNKNOWN),  # nobody knows what came of the last one
        (4, 2, "ok", Validity.VALID),
    ],
)
def test_who_never_shows_its_view_after_recovery_is_behind(
    asks: int, apart_s: float, last: str, validity: Validity
) -> None:
    it, crashed, stood = run(), run(), run()
    for history in (it, crashed, stood):
        finished(history)
        for ask in range(asks):
            history.wait(apart_s if ask else 0)
            asked = history.invoke("view", process="other.0", value={"object": "topic/t", "to": "broker-1"})
            history.seen(asked, 3, -1, node="broker-1", type=last if ask == asks - 1 else "fail")
    crashed.trace("broker-1", "crash")
    stood.row("harness", f="stall", value={"ms": 2000})
    it.expect(VIEWS, *([A.VIEW_BEHIND] if validity is Validity.INVALID else []), validity=validity)
    for history in (crashed, stood):
        history.expect(VIEWS, validity=Validity.UNKNOWN if last != "ok" else Validity.VALID)


def test_a_log_that_is_not_whole_proves_nothing_and_one_that_began_before_the_run_is_whole() -> None:
    gap, conflict, lost = run(), run(), run()
    gap.change("topic/u", 6, 2)
    conflict.change("topic/u", 4, 2, node="controller-1")
    lost.row("harness", f="host_lost", value={"host": "h"})
    for it in (gap, conflict, lost):
        finished(it).expect(VIEWS, validity=Validity.UNKNOWN)
    it = Run(meta={"uses": ["objects", "metadata"]})
    it.phase("load")
    it.change("topic/t", 7, 3)
    it.view("topic/t", 2, 5, knew=6)
    it.view("topic/old", 9, 5, knew=7)
    it.agreed(7)
    it.end().view("topic/t", 3, 107, knew=7)
    it.expect(VIEWS, validity=Validity.VALID)


def test_a_run_without_metadata_is_none_of_its_business() -> None:
    it = History()
    it.send(0)
    it.finish(0).expect(VIEWS, validity=Validity.NOT_APPLICABLE)
    nothing = Run(meta={"uses": ["metadata"]}).end()
    nothing.expect(VIEWS, validity=Validity.UNKNOWN)


def test_it_keeps_the_contract_of_laws() -> None:
    known = registry()
    back, wrong, good = run(), run(), finished(run())
    back.view("topic/t", 2, 103)
    back.view("topic/t", 1, 101)
    wrong.view("topic/t", 1, 7)
    bad = [(finished(back).table(), [A.VIEW_WENT_BACK]), (finished(wrong).table(), [A.VIEW_NOT_A_PREFIX])]
    (number,) = known.of(VIEWS)
    check_law(known.kernels[number], bad=bad, near_miss=[good.table()], context=good.context())
