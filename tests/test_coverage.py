"""What counts as reached: branches by the steps between lines, faults by whom they hit and what went on meanwhile."""

from __future__ import annotations

from pathlib import Path

from benchmarks.coverage import page
from benchmarks.coverage.branches import branches, taken, tracing
from benchmarks.coverage.moments import Meeting, Phase, meetings
from chaos.history.run_meta import RunMeta
from tests.checkers.histories import History

POLICY = """\
def judge(number, seen):
    for one in range(number):
        if (one > 1
                and any(one > other for other in seen)):
            seen.append(one)
        elif one == 0:
            return len(seen)
    if not seen:
        seen = [0]
    return len(seen)
"""


def test_a_branch_is_taken_when_its_outcome_was_there(tmp_path: Path) -> None:
    file = tmp_path / "reference" / "broker" / "policy.py"
    file.parent.mkdir(parents=True)
    file.write_text(POLICY)
    names: dict[str, object] = {}
    exec(compile(POLICY, str(file), "exec"), names)
    with tracing(tmp_path) as lines:
        names["judge"](2, [1])  # type: ignore[operator]
        names["judge"](0, [1])  # type: ignore[operator]
    known = [branch for branch, _ in branches("reference/broker/policy.py", POLICY)]
    assert [(one.line, one.held) for one in known] == [
        (3, True),
        (3, False),
        (6, True),
        (6, False),
        (8, True),
        (8, False),
    ]
    found = taken("reference/broker/policy.py", POLICY, lines)
    assert sorted((one.line, one.held) for one in found) == [(3, False), (6, True), (8, False)]
    with tracing(tmp_path) as lines:
        pass
    assert taken("reference/broker/policy.py", POLICY, lines) == set(), "tracing ends with its block"


def test_a_fault_meets_the_role_that_its_node_had_and_the_phases_that_it_overlaps() -> None:
    it = History()
    it.master("broker-0", 1)
    it.role("broker-1", "slave", 1)
    it.append("broker-0", 0)
    process = it.inject("jolt", "broker-1", "store-0", effects={"slows": ["broker-1", "store-0"]})
    it.confirm("broker-0", 100)
    it.undo("jolt", process)
    it.role("broker-1", "master", 2)
    it.inject("noop", "broker-0", effects={})
    it.trace("broker-2", "bootstrap", position=100)
    it.inject("late", "broker-1", effects={"may_crash": ["broker-1"]})
    meta = {"nodes": [{"name": "store-0", "role": "objectstore"}]}
    found = meetings(it.table(), RunMeta.of(meta))
    assert found == {
        Meeting(fault="jolt", role="slave", phase=Phase.REPLICATION),
        Meeting(fault="jolt", role="objectstore", phase=Phase.REPLICATION),
        Meeting(fault="late", role="master", phase=Phase.BOOTSTRAP),
    }


def test_the_page_lists_what_never_was() -> None:
    file = "reference/broker/policy.py"
    known = [branch for branch, _ in branches(file, POLICY)]
    totals = page.Totals(runs=2, examples=("storm",))
    totals.branches.update(known[1:])
    totals.goals.update({"seen": 2, "unseen": 0})
    text = page.write(totals, range(1, 3), {file: POLICY}, "0123abcd")
    assert "5 of 6 branches ran (83 %)." in text and "commit 0123abcd" in text
    assert f"| `{file}:3` | `one > 1 and any((one > other for other in seen))` | held |" in text
    assert f"`{file}:6`" not in text and "| `unseen` | – |" in text and "| `seen` | 2 |" in text
