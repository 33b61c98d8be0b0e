"""The kit for authors of drivers: what is looked at where a driver deletes topics."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from chaos.driver import Network
from chaos.ops import Answer, Failed
from chaos.testing._drivers import topics
from chaos.testing._drivers.bench import Bench


class Registry:
    """A driver of topics in memory, and its client. Of deletions it refuses those after the first ``deletions``, and
    with ``keeps`` carries none out."""

    def __init__(self, *, deletions: int = 9, keeps: bool = False, makes: bool = True) -> None:
        self.made: dict[str, int] = {}
        self.deletions, self.keeps, self.makes = deletions, keeps, makes

    def deleting_topics(self, network: Network, name: str) -> Registry:
        return self

    async def create(self, topic: str, queues: int) -> Answer:
        if not self.makes:
            raise Failed("no")
        self.made[topic] = queues
        return Answer()

    async def delete(self, topic: str) -> Answer:
        self.deletions -= 1
        if self.deletions < 0:
            raise Failed("no")
        if not self.keeps:
            self.made.pop(topic, None)
        return Answer()

    async def find(self, topic: str) -> Answer:
        return Answer(value={"queues": self.made.get(topic, 0)})


def problems(registry: Registry) -> str:
    bench = Bench(cast(Any, registry), cast(Any, None), "", 1.0)
    asyncio.run(topics.check_deletion(bench, registry))
    return "\n".join(bench.problems)


def test_a_driver_that_deletes_topics_has_no_problem() -> None:
    assert problems(Registry()) == ""


@pytest.mark.parametrize(
    ("registry", "words"),
    [
        (Registry(makes=False), "create did not end well on a settled system: no"),
        (Registry(deletions=0), "delete did not end well on a settled system: no"),
        (Registry(deletions=1), "delete did not end well on a settled system: no"),
        (Registry(keeps=True), "3 queues of a topic that was deleted"),
    ],
)
def test_what_a_driver_gets_wrong_is_said(registry: Registry, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "RETRY_S", 0.0)
    assert words in problems(registry)
