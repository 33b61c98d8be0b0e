"""What the workloads on the controllers' objects share: making an object, and finding a node that takes changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from chaos.driver import Objects
from chaos.ops import Answer, Failed, Unknown
from chaos.workload import Load, Worker

RETRY_S = 0.1
#: An object's state when it has been made: the arguments with which its models begin.
FIRST_EPOCH = 1
FIRST_MEMBER = 1
FIRST_ADDRESS = "nowhere"


class Guide:
    """Where to send changes: to the node that took the last one; every so often to any, for a node that was deposed
    and has not noticed is the one to ask."""

    def __init__(self, nodes: Sequence[str], rng: Random, *, astray: float = 0.35) -> None:
        self._nodes = nodes
        self._rng = rng
        self._astray = astray
        self._at = rng.randrange(len(nodes))

    def any(self) -> str:
        return self._rng.choice(self._nodes)

    def leader(self) -> str:
        return self.any() if self._rng.random() < self._astray else self._nodes[self._at]

    def learn(self, node: str, *, took: bool) -> None:
        """How a change that this node was asked for has ended."""
        if took:
            self._at = self._nodes.index(node)
        elif self._nodes[self._at] == node:
            self._at = (self._at + 1) % len(self._nodes)


@contextmanager
def told_by(node: str) -> Iterator[None]:
    """Let what goes wrong say which node was asked, too."""
    try:
        yield
    except (Failed, Unknown) as error:
        raise type(error)(error.reason, replace(error.answer, node=node)) from error


async def make(
    load: Load, objects: Objects, worker: Worker, name: str, init: Mapping[str, Sequence[object]], *, members: int
) -> bool:
    """Make an object, however often that has to be asked; False if the load ended before. ``init`` is the first state
    for each model that its operations follow."""

    async def create() -> Answer:
        turn = 0
        while not load.stopping:
            node = objects.nodes[turn % len(objects.nodes)]
            try:
                return await objects.create(name, node, members=members)
            except (Failed, Unknown):
                turn += 1
                await load.sleep(RETRY_S)
        raise Unknown("the load ended before the object was made")

    made = await worker.do("create", create, object=name, init={model: list(state) for model, state in init.items()})
    return made.ok
