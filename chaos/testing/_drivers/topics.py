"""What a driver that creates or deletes topics may not do."""

from __future__ import annotations

import asyncio

from chaos.services import CanCreateTopics, CanDeleteTopics, Topics
from chaos.testing._drivers.bench import Bench

TRIES, RETRY_S = 50, 0.2
NAME, DELETED, QUEUES = "check-topic", "check-deleted-topic", 3


async def check_topics(bench: Bench, driver: CanCreateTopics) -> None:
    """Look for a topic, create it, and look again; then create it once more with another number of queues."""
    client = driver.topics(bench.network, "check-topics")
    bench.require(
        await _queues(bench, client, NAME, 0) == 0, "topics: find of an absent topic must end with the value 0"
    )
    for queues in (QUEUES, QUEUES + 1):
        made = await bench.ask("topics: create", client.create(NAME, queues))
        if not bench.require(made.ok, f"topics: create did not end well on a settled system: {made.reason}"):
            return
        found = await _queues(bench, client, NAME, QUEUES)
        text = f"topics: find says that there are {found} queues, where create made {QUEUES}"
        bench.require(found == QUEUES, text)


async def check_deletion(bench: Bench, driver: CanDeleteTopics) -> None:
    """Create a topic, delete it, and look for it; then delete it once more."""
    client = driver.deleting_topics(bench.network, "check-topics")
    made = await bench.ask("deleting_topics: create", client.create(DELETED, QUEUES))
    if not bench.require(made.ok, f"deleting_topics: create did not end well on a settled system: {made.reason}"):
        return
    for _ in range(2):
        gone = await bench.ask("deleting_topics: delete", client.delete(DELETED))
        if not bench.require(gone.ok, f"deleting_topics: delete did not end well on a settled system: {gone.reason}"):
            return
        found = await _queues(bench, client, DELETED, 0)
        bench.require(
            found == 0, f"deleting_topics: find says that there are {found} queues of a topic that was deleted"
        )


async def _queues(bench: Bench, client: Topics, name: str, wanted: int) -> object:
    """Return how many queues there are, once there are as many as wanted or much time has passed."""
    found: object = None
    for _ in range(TRIES):
        asked = await bench.ask("topics: find", client.find(name))
        found = asked.answer.value.get("queues") if asked.ok else found
        if found == wanted:
            break
        await asyncio.sleep(RETRY_S)
    return found
