"""Members that pop, and what a system may answer them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chaos.deployments._sim.loop import VirtualLoop
from chaos.ops import Answer, Delivered
from tests.workloads.test_workloads import FakeLoad, System
from workloads._deliveries import Deliveries
from workloads.deliveries import NAME, Options, _Member


@dataclass
class Popping:
    """A member's client that is given one answer, then nothing."""

    load: FakeLoad
    given: list[Answer]
    acknowledged: list[int] = field(default_factory=list)

    async def pop(self, limit: int, *, invisible_ms: int) -> Answer:
        self.load.stopping = not self.given
        return self.given.pop() if self.given else Answer()

    async def acknowledge(self, message: int) -> Answer:
        self.acknowledged.append(message)
        return Answer()


def test_a_message_of_no_queue_of_ours_moves_no_other_to_its_place() -> None:
    """Places of messages that came again are those of the answer, whatever of it is of use."""
    loop = VirtualLoop()
    load: Any = FakeLoad(loop, System())
    lost = Delivered(offset=7, message=-1, hash=1, queue=-1)
    new = Delivered(offset=3, message=5, hash=2, queue=0)
    again = Delivered(offset=9, message=6, hash=3, queue=1)
    client: Any = Popping(load, [Answer(messages=(lost, new, again), value={"again": [2]})])
    member = _Member(load, Deliveries(lambda group: NAME), client, "pop-0", f"{NAME}-pop", False, load.rng("pop"))
    loop.run_until_complete(member.be_given(lambda: load.stopping, Options(returns=0.0)))
    loop.close()
    assert client.acknowledged == [5, 6]
    given = [(row["f"], row["queue"], row["message"]) for row in load.where(type="invoke") if row["f"] != "ack"]
    assert [one for one in given if one[0] != "receive"] == [("receive_again", 1, 6)]
    assert [row["message"] for row in load.where(f="delivered")] == [5]
