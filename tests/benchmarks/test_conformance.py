"""The page of the questions to both systems: it lists the cases that there are, and says of each difference who is
right."""

from __future__ import annotations

from benchmarks import conformance
from benchmarks._conformance import OUR_OWN, RIGHT, SIDES
from drivers._remoting.wire import Command, Request
from drivers.reference.conformance import cases


def rows() -> dict[str, list[str]]:
    """Return the cells behind the name of each case in the page's table."""
    lines = conformance.PAGE.read_text("utf-8").splitlines()
    first, *found = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    assert len(first) == 5 and all(len(cells) == 5 for cells in found)
    return {name: cells for name, *cells in found}


def test_the_page_lists_exactly_the_cases_that_both_can_be_asked() -> None:
    (alike,) = [line for line in conformance.PAGE.read_text("utf-8").splitlines() if line.startswith(conformance.BOTH)]
    names = [*rows(), *alike.removeprefix(conformance.BOTH).removesuffix(".").split("; ")]
    assert sorted(names) == sorted(conformance.applicable())


def test_each_difference_has_a_sentence_and_no_sentence_is_left_over() -> None:
    assert {name: cells[-1] for name, cells in rows().items()} == {name: RIGHT.get(name) for name in rows()}
    assert [name for name in RIGHT if name not in rows()] == []
    assert [why for why in RIGHT.values() if not why.startswith(SIDES)] == []


def test_the_reference_system_answered_all_as_documented() -> None:
    assert {cells[1] for cells in rows().values()} == {"as documented"}


def test_what_is_left_out_is_there_to_be_asked() -> None:
    assert [name for name in OUR_OWN if name not in cases("t", frames=True, metadata=False)] == []


def test_what_a_request_has_stays_on_its_way_to_rocketmq() -> None:
    read = Command(code=Request.PULL_MESSAGE, fields={"sysFlag": "2", "suspendTimeoutMillis": "7"})
    assert conformance.completed(read).fields.items() >= {
        ("sysFlag", "6"),
        ("subscription", "*"),
        ("suspendTimeoutMillis", "7"),
        ("commitOffset", "0"),
    }
    assert conformance.completed(read, subscribed=False).fields["sysFlag"] == "2"
    broken = Command(code=Request.PULL_MESSAGE, fields={"sysFlag": "x", "queueId": "0"})
    assert conformance.completed(broken).fields["sysFlag"] == "x"
    other = Command(code=Request.GET_MAX_OFFSET, fields={"topic": "t"})
    assert conformance.completed(other) == other
