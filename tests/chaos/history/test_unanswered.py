"""Whether a workload was answered at all: told once, and only where nothing was."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.history.unanswered import Answers, sentences

Op = tuple[str, str, dict[str, Any]]
REFUSED = {"refused": True, "reason": "the version is not 3"}
DOWN = {"reason": "socket disconnected"}


def noted(*operations: Op) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    def record(kind: str, **columns: Any) -> int:
        rows.append({"kind": kind, **columns})
        return len(rows)

    answers = Answers("w", record)
    for f, type, value in operations:
        answers("op", type="invoke", f=f, value={})
        if type:
            answers("op", type=type, f=f, value=value)
    assert len(rows) == sum(2 if type else 1 for _, type, _ in operations), "what is recorded passes on"
    answers.note()
    return [row["value"] for row in rows if row["kind"] == "harness" and row["f"] == "unanswered"]


def test_it_is_told_with_the_most_frequent_error() -> None:
    timed_out = ("send", "info", {"reason": "no  answer\nwithin 1 s"})
    (found,) = noted(timed_out, ("send", "fail", DOWN), timed_out, ("send", "", {}))
    assert found == {"workload": "w", "operations": 4, "f": ["send"], "error": "no answer within 1 s", "times": 2}
    assert sentences([found]) == [
        "the workload w never got one ok: 0 of its 4 × send were answered; most often, 2 times: no answer within 1 s"
    ]


@pytest.mark.parametrize(
    "operations",
    [
        [("send", "fail", DOWN), ("send", "ok", {})],
        [("cas", "fail", REFUSED)],
        [("question", "fail", {"told": "code 13", "expected": "code 13"})],
        [("send", "fail", {"told": "code 13", "expected": "code 13", "reason": "code 13: too large"})],
        [("find_master", "ok", {}), ("elect", "fail", DOWN)],
        [("pull", "ok", {})],
        [],
    ],
)
def test_whoever_was_answered_is_not_told(operations: list[Op]) -> None:
    assert noted(*operations) == []


@pytest.mark.parametrize(
    "operations",
    [
        [("pull", "ok", {}), ("send", "fail", DOWN)],  # what others sent is no answer to its sends
        [("create", "ok", {}), ("read", "info", DOWN), ("cas", "fail", DOWN)],
        [("pull", "info", DOWN)],
        [("send", "", {})],
    ],
)
def test_what_was_made_before_and_what_others_sent_is_no_answer(operations: list[Op]) -> None:
    assert len(noted(*operations)) == 1
