"""Requests to read messages. What is acknowledged is given from memory or by any store that has it; "nothing new" only
by an owner whose epoch is confirmed.
"""

from __future__ import annotations

from chaos.node import Env
from reference.broker.pulls import Pull, PullRequests
from reference.broker.records import with_queue
from reference.split.broker.asking import Stores
from reference.split.broker.owned import OwnedSlice
from reference.split.broker.queues import OpenQueue
from reference.split.broker.reading import Found, Read
from reference.split.broker.serving import identity_fields, unconfirmed
from reference.split.broker.slices import Slices
from reference.split.requests import ANYWHERE, LOCAL_ONLY, TIER_ONLY
from reference.wire.codes import Response
from reference.wire.command import Command
from reference.wire.fields import text, whole

#: What a reader may demand of the source, and how stores are asked for that.
_TIERS = {"tier": TIER_ONLY, "local": LOCAL_ONLY}


class Pulls(PullRequests[OpenQueue]):
    """The pulls of all slices that are open here."""

    def __init__(self, slices: Slices, stores: Stores) -> None:
        super().__init__()
        self._slices = slices
        self._stores = stores

    def pull(self, env: Env, source: str, message: Command) -> None:
        """11 and 361: read from an offset on; at the end the request may be held until there is more."""
        fields = message.fields
        _, queue = self._slices.find(message, text(fields, "topic"), whole(fields, "queueId"))
        self._read(env, Pull.read(env, source, message, queue, queue.epoch, self.subscriptions.of_pull(message)))

    # Policy

    def readable_end(self, queue: OpenQueue) -> int:
        """Readers see what is acknowledged."""
        return queue.end

    def below_start(self, env: Env, pull: Pull[OpenQueue]) -> None:
        """Answer who asks for what is trimmed: with where the queue begins, never as if it were empty."""
        self._moved(env, pull, pull.queue.first)

    def confirm(self, env: Env, pull: Pull[OpenQueue]) -> None:
        """Have the epoch confirmed before any client is answered that there is nothing more."""

        def then(env: Env, is_confirmed: bool) -> None:
            if not is_confirmed:
                env.send(pull.source, unconfirmed(pull.request))
            elif pull.offset < pull.queue.end:
                self._read(env, pull)
            else:
                self._nothing(env, pull)

        group = self._slices.open_group(pull.queue)
        if group is None:
            then(env, False)
        else:
            group.confirms.ask(env, then)

    # Reading

    def _read(self, env: Env, pull: Pull[OpenQueue]) -> None:
        queue, end = pull.queue, self.readable_end(pull.queue)
        if pull.offset < queue.first:
            self.below_start(env, pull)
        elif pull.offset > end or (pull.offset == end and not self._may_hold(env, pull)):
            self.confirm(env, pull)
        elif pull.offset == end:
            self._hold(env, pull)
        elif not pull.demand and (found := queue.cached(pull.offset, pull.max_count, pull.max_bytes)):
            self._give(env, pull, found, "local")
        else:
            self._fetch(env, pull, end)

    def _nothing(self, env: Env, pull: Pull[OpenQueue]) -> None:
        """Answer a pull that asks for what isn't there yet, by an owner whose epoch is confirmed."""
        if pull.offset == pull.queue.end:
            self._answer(env, pull, Response.PULL_NOT_FOUND, pull.offset, "local", remark="OFFSET_OVERFLOW_ONE")
        else:
            self._moved(env, pull, pull.queue.end)

    def _fetch(self, env: Env, pull: Pull[OpenQueue], end: int) -> None:
        def then(env: Env, found: Found | None) -> None:
            if self._slices.open_group(pull.queue) is None:
                env.send(pull.source, unconfirmed(pull.request))
            elif found is None:
                self._answer(env, pull, Response.PULL_RETRY_IMMEDIATELY, pull.offset, "local", remark="retry")
            elif found.parts:
                self._give(env, pull, found.parts, found.source)
            elif pull.offset < pull.queue.first:
                self.below_start(env, pull)
            else:
                self._answer(env, pull, Response.PULL_NOT_FOUND, pull.offset, "tier", remark="NO_MATCHED_MESSAGE")

        limits = {"max_count": min(pull.max_count, end - pull.offset), "max_bytes": pull.max_bytes}
        tier = _TIERS.get(pull.demand, ANYWHERE)
        Read(self._stores, pull.queue, pull.offset, then, **limits, tier=tier).ask(env)

    def _give(self, env: Env, pull: Pull[OpenQueue], records: list[bytes], source: str) -> None:
        super()._give(env, pull, [with_queue(data, pull.queue.rank) for data in records], source)

    def _minimum(self, queue: OpenQueue) -> int:
        return queue.first

    def _identity(self, env: Env, queue: OpenQueue) -> dict[str, str]:
        return identity_fields(env, queue)

    def abandon(self, env: Env, owned: OwnedSlice) -> None:
        """Refuse the pulls that are held at queues of a slice that is closed: their clients ask its next owner."""
        gone = [pull for pull in self._held if pull.queue.slice == owned.number]
        self._held = [pull for pull in self._held if pull.queue.slice != owned.number]
        for pull in gone:
            remark = f"{owned.name} is not open here"
            env.send(pull.source, pull.request.reply(Response.SERVICE_NOT_AVAILABLE, remark=remark))
