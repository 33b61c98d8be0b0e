"""Sealed segments in the object store, as the stores put, fetch, find and delete them."""

from __future__ import annotations

from collections.abc import Callable

from chaos.node import Env
from reference.split.segments import OBJECTS, Segment, digest_of
from reference.tier.objects import content_hash
from reference.tier.store_client import TIMER, Answer, StoreClient
from reference.wire.command import Command

#: Called with the bytes of a segment, or without them; then with whether the object store says that it has none.
Fetched = Callable[[Env, bytes | None, bool], None]


class SegmentTier:
    """Requests to the object store, each of which ends exactly once."""

    def __init__(self, node: str, timeout_ms: int) -> None:
        self._client = StoreClient(node, timeout_ms * 1_000_000)

    def put(self, env: Env, segment: Segment, data: bytes, then: Callable[[Env, bool], None]) -> None:
        """Store a segment; ``then`` is called with whether exactly these bytes are durable there now."""
        wanted = content_hash(data)

        def ended(env: Env, answer: Answer) -> None:
            then(env, not answer.lost and answer.hash == wanted)

        self._ask(env, "put", segment.key, segment, ended, body=data)

    def fetch(self, env: Env, segment: Segment, then: Fetched) -> None:
        """Fetch a segment and check its hash."""

        def ended(env: Env, answer: Answer) -> None:
            is_whole = answer.ok and self.is_whole(segment, answer.body)
            then(env, answer.body if is_whole else None, answer.absent)

        self._ask(env, "get", segment.key, segment, ended)

    def is_whole(self, segment: Segment, data: bytes) -> bool:
        """Policy: an object with other bytes than were sealed is none."""
        return digest_of(data) == segment.digest

    def delete(self, env: Env, segment: Segment, then: Callable[[Env, bool], None]) -> None:
        """Delete an object; ``then`` is called with whether it is gone."""
        self._ask(env, "delete", segment.key, segment, lambda env, answer: then(env, answer.ok or answer.absent))

    def find(self, env: Env, group: int, topic_id: int, then: Callable[[Env, list[Segment] | None], None]) -> None:
        """Find the segments of a topic in a group of which there are objects; None if that isn't known."""
        prefix = f"{OBJECTS}{topic_id}/{group}/"
        found: list[Segment] = []

        def page(env: Env, answer: Answer) -> None:
            if not answer.ok:
                then(env, None)
                return
            keys = [key for key in answer.listed() if key.startswith(prefix)]
            found.extend(one for one in map(Segment.of_key, keys) if one is not None)
            if answer.more and keys:
                more(env, keys[-1])
            else:
                then(env, found)

        def more(env: Env, after: str) -> None:
            self._client.ask(env, "list", prefix, page, queue=group, epoch=-1, after=after)

        more(env, "")

    def _ask(
        self,
        env: Env,
        verb: str,
        key: str,
        segment: Segment,
        then: Callable[[Env, Answer], None],
        body: bytes = b"",
    ) -> None:
        self._client.ask(env, verb, key, then, queue=segment.group, epoch=-1, body=body)

    def message(self, env: Env, source: str, message: Command) -> bool:
        """Take an answer; False if it is none of the object store's."""
        return self._client.message(env, source, message)

    def timer(self, env: Env, name: str) -> bool:
        """Handle a timer. Return False if it is another part's."""
        if name != TIMER:
            return False
        self._client.timer(env)
        return True

    def closed(self, env: Env, peer: str) -> None:
        """Lose what is under way, if the connection with the object store broke."""
        if peer == self._client.store:
            self._client.closed(env)
