"""What the workloads on objects share: making one, finding a node that takes changes, and recording its set.

The history calls a set's numbers ``members`` and its version ``epoch``, as the model ``replica-info`` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from chaos.ops import Answer, Failed, Unknown
from chaos.services import FIRST_SET, Objects, set_key
from chaos.workload import Load, Worker

RETRY_S = 0.1
#: The number that is in every set.
FIRST_MEMBER = FIRST_SET[0]


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
        """Learn how a change that this node was asked for has ended."""
        if took:
            self._at = self._nodes.index(node)
        elif self._nodes[self._at] == node:
            self._at = (self._at + 1) % len(self._nodes)


@contextmanager
def names_node(node: str) -> Iterator[None]:
    """Have the answer name the node that was asked, whatever goes wrong."""
    try:
        yield
    except (Failed, Unknown) as error:
        raise type(error)(error.reason, replace(error.answer, node=node)) from error


async def make(
    load: Load, objects: Objects, worker: Worker, name: str, init: Mapping[str, Sequence[object]], *, numbers: int
) -> bool:
    """Make an object, and ask again until that works; False if the load ended before. ``init`` is the first state for
    each model that its operations follow."""

    async def create() -> Answer:
        turn = 0
        while not load.stopping:
            node = objects.nodes[turn % len(objects.nodes)]
            try:
                return await objects.create(name, node, numbers=numbers)
            except (Failed, Unknown):
                turn += 1
                await load.sleep(RETRY_S)
        raise Unknown("the load ended before the object was made")

    made = await worker.do("create", create, object=name, init={model: list(state) for model, state in init.items()})
    return made.ok


async def read_set(objects: Objects, name: str, node: str) -> Answer:
    """Return ``epoch`` and ``members``, the latter empty where there is no such object."""
    with names_node(node):
        answer = await objects.read(set_key(name), node)
    return replace(answer, value={"epoch": answer.value["version"], "members": answer.value["value"] or []})


async def change_set(objects: Objects, name: str, node: str, *, expected: int, members: Sequence[int]) -> Answer:
    """Change the set and return the new ``epoch``; see :meth:`Objects.compare_and_set`."""
    with names_node(node):
        answer = await objects.compare_and_set(set_key(name), node, expected=expected, value=members)
    return replace(answer, value={"epoch": answer.value["version"]})
