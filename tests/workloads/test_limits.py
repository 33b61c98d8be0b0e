"""The workload at the limits: all questions are asked, messages are like others, and in the end everybody is asked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chaos.deployments._sim.loop import VirtualLoop
from chaos.ops import Answer, Failed, QueueRef, Unknown
from chaos.tasks import gather
from chaos.workload import Use, body_hash, uses_of
from tests.workloads.test_workloads import FakeLoad, System
from workloads import limits

RIGHT = {"expected": "yes", "told": "yes"}


@dataclass
class Oracle:
    """Answers as documented. ``trouble`` may raise before a call."""

    trouble: Callable[[str, str], Exception | None] = lambda question, node: None
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    sent: list[tuple[str, str, int]] = field(default_factory=list)
    questions: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"a": ("",), "b": ("n", "m")})
    messages: tuple[str, ...] = ("long",)
    answer_s: float = 0.002

    async def ask(self, question: str, node: str) -> Answer:
        await asyncio.sleep(self.answer_s)
        self.asked[question, node] += 1
        error = self.trouble(question, node)
        if error is not None:
            raise error
        return Answer(node=node, value=RIGHT)

    async def send_question(self, question: str, queue: QueueRef, key: str, body: bytes) -> Answer:
        await asyncio.sleep(0.002)
        self.sent.append((question, key, body_hash(body)))
        return Answer(node="n", queue=queue.index, offset=len(self.sent) - 1, value=RIGHT)


def play(oracle: Oracle, *, seconds: float = 2.0, **options: Any) -> FakeLoad:
    loop = VirtualLoop()
    load = FakeLoad(loop, System())
    load.limits = lambda name: oracle  # type: ignore[attr-defined]
    made = limits.create(limits.Options(**options))
    assert uses_of(made) == (Use.LIMITS,)

    async def main() -> int:
        async def stop() -> None:
            await asyncio.sleep(seconds)
            load.stopping = True

        await gather(stop(), made.run(load))
        await made.drain(load)
        return 0

    loop.run_until_complete(main())
    loop.close()
    return load


def test_each_question_is_asked_as_often_as_the_others_and_of_every_node_in_the_end() -> None:
    oracle = Oracle()
    load = play(oracle, rate_per_s=30.0)
    asked = [row["value"]["question"] for row in load.where(f="question", type="ok", process="limits.0")]
    counts = Counter(asked) + Counter(row["value"]["question"] for row in load.where(f="send", type="ok"))
    assert set(counts) == {"a", "b", "long"} and max(counts.values()) - min(counts.values()) <= 1
    assert min(counts.values()) > 10
    last = load.where(f="question", type="ok", process="limits-reader.0")
    assert [(row["value"]["question"], row["value"]["to"]) for row in last] == [("a", ""), ("b", "n"), ("b", "m")]
    assert all(row["value"]["told"] == "yes" for row in last)


def test_a_message_has_a_number_of_its_queue_and_counts_as_acknowledged() -> None:
    oracle = Oracle()
    load = play(oracle, rate_per_s=30.0)
    rows = load.where(f="send", type="ok")
    assert [(f"{row['message']:032X}", row["hash"]) for row in rows] == [(key, hash) for _, key, hash in oracle.sent]
    assert len({row["message"] for row in rows}) == len(rows)
    assert load.shared["acked"]


def test_in_the_end_who_does_not_answer_is_asked_again_within_the_bound() -> None:
    def trouble(question: str, node: str) -> Exception | None:
        return Unknown("timeout") if node == "m" else Failed("not now") if oracle.asked[question, node] < 40 else None

    oracle = Oracle(trouble=trouble)
    load = play(oracle, seconds=0.1, rate_per_s=10.0, drain_s=9.0)
    last = load.where(f="question", type="ok", process="limits-reader.0")
    assert {(row["value"]["question"], row["value"]["to"]) for row in load.where(f="question", type="ok")} == {
        ("a", ""),
        ("b", "n"),
    }
    assert last == [] or last[-1]["time_ns"] > 8e9
    silent = load.where(f="question", type="info")
    assert len({row["process"] for row in silent}) == len(silent) and 8.5e9 < silent[-1]["time_ns"] < 9.5e9


def test_where_nobody_answers_the_first_are_asked_again_before_all_were_asked() -> None:
    oracle = Oracle(trouble=lambda question, node: Unknown("timeout"), answer_s=2.0)
    oracle.questions = {f"{number:03}": ("n",) for number in range(100)}
    load = play(oracle, seconds=0.1, drain_s=3.0)
    last = [row for row in load.where(f="question", type="info") if row["process"].startswith("limits-reader")]
    asked = [row["value"]["question"] for row in last]
    assert asked == ["000", "001", "002", "003", "004", "005", "000", "001", "002"]
