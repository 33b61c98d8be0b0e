"""What a driver that creates topics may not do."""

from __future__ import annotations

import asyncio

from chaos.services import CanCreateTopics, Topics
from chaos.testing._drivers.bench import Bench

TRIES, RETRY_S = 50, 0.2
NAME, QUEUES = "check-topic", 3


async def check_topics(bench: Bench, driver: CanCreateTopics) -> None:
    """Look for a topic, create it, and look again; then create it once more with another number of queues."""
    client = driver.topics(bench.network, "check-topics")
    bench.require(await _queues(bench, client, 0) == 0, "topics: find of an absent topic must end with the value 0")
    for queues in (QUEUES, QUEUES + 1):
        made = await bench.ask("topics: create", client.create(NAME, queues))
        if not bench.require(made.ok, f"topics: create did not end well on a settled system: {made.reason}"):
            return
        found = await _queues(bench, client, QUEUES)
        text = f"topics: find says that there are {found} queues, where create made {QUEUES}"
        bench.require(found == QUEUES, text)


async def _queues(bench: Bench, client: Topics, wanted: int) -> object:
    """How many queues there are, once there are as many as wanted or much time has passed."""
    found: object = None
    for _ in range(TRIES):
        asked = await bench.ask("topics: find", client.find(NAME))
        found = asked.answer.value.get("queues") if asked.ok else found
        if found == wanted:
            break
        await asyncio.sleep(RETRY_S)
    return found
