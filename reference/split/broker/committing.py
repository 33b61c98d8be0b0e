"""Consumers' offsets of one group: as its FENCE found them, and as this owner has them committed.

A commit stands in the group's log like records do and is refused to an owner that was replaced; it never takes a
consumer group back, so it may be made again as often as it takes. Of what comes for one consumer group and queue while
a commit is under way the highest is committed next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chaos.node import Env
from reference.broker.sends import PendingRequest
from reference.split.broker.asking import Outcome, Stores
from reference.split.requests import CommitRequest
from reference.wire.codes import Response

#: Consumer group, topic id, number of the queue.
Key = tuple[str, int, int]


@dataclass(slots=True)
class _Commit:
    offset: int
    waiting: list[PendingRequest] = field(default_factory=list)
    tries: int = 0
    is_refused: bool = False


class Commits:
    """The commits to one group in one epoch. ``offsets`` are those that are acknowledged."""

    def __init__(
        self,
        stores: Stores,
        group: int,
        epoch: int,
        offsets: Mapping[Key, int],
        lost: Callable[[Env, int], None],
    ) -> None:
        self.group = group
        self.epoch = epoch
        self.offsets = dict(offsets)
        self._stores = stores
        self._lost = lost
        self._under_way: dict[Key, _Commit] = {}
        self._next: dict[Key, _Commit] = {}
        self._is_closed = False

    # Policy

    def is_definite(self, commit: _Commit) -> bool:
        """Return whether a commit surely never takes effect: it never left, or its single try was refused."""
        return commit.tries == 0 or (commit.tries == 1 and commit.is_refused)

    def epoch_of_commits(self) -> int:
        """Return the epoch by which commits are accepted or refused."""
        return self.epoch

    # Commits come

    def put(self, env: Env, key: Key, offset: int, waiting: PendingRequest) -> None:
        """Commit an offset."""
        commit = self._next.setdefault(key, _Commit(offset))
        commit.offset = max(commit.offset, offset)
        commit.waiting.append(waiting)
        if key not in self._under_way:
            self._begin(env, key)

    def _begin(self, env: Env, key: Key) -> None:
        commit = self._next.pop(key, None)
        if commit is not None:
            self._under_way[key] = commit
            self._ask(env, key, commit)

    def _ask(self, env: Env, key: Key, commit: _Commit) -> None:
        consumer, topic_id, number = key
        commit.tries += 1

        request = CommitRequest(
            group=self.group,
            epoch=self.epoch_of_commits(),
            consumer=consumer,
            topic_id=topic_id,
            number=number,
            offset=commit.offset,
        )

        def again(env: Env) -> None:
            if not self._is_closed:
                self._ask(env, key, commit)

        def came(env: Env, outcome: Outcome[bool]) -> None:
            if self._is_closed:
                return
            if outcome.answer is not None:
                self._committed(env, key, commit)
            elif outcome.code == Response.GROUP_FENCED:
                commit.is_refused = True
                self._lost(env, outcome.code)
            elif outcome.code == Response.GROUP_OTHER:
                self._end(env, key, commit, Response.NO_PERMISSION, "there is no room for more offsets of groups")
            else:
                self._stores.again(env, outcome, again)

        self._stores.ask_leader(env, self.group, request, lambda _: True, came)

    def _end(self, env: Env, key: Key, commit: _Commit, code: Response, remark: str) -> None:
        """Give up a commit that the group refuses for good."""
        commit.is_refused = True
        del self._under_way[key]
        self._refuse(env, commit, code, remark)
        self._begin(env, key)

    def _committed(self, env: Env, key: Key, commit: _Commit) -> None:
        self.offsets[key] = max(self.offsets.get(key, 0), commit.offset)
        del self._under_way[key]
        for waiting in commit.waiting:
            waiting.respond(env, waiting.answer)
        self._begin(env, key)

    # Commits end otherwise

    def expire(self, env: Env) -> None:
        """End requests that waited too long; their offsets go on being committed."""
        now = env.mono_ns()
        for commit in (*self._under_way.values(), *self._next.values()):
            for waiting in [one for one in commit.waiting if one.deadline_ns <= now]:
                commit.waiting.remove(waiting)
                self._unknown(env, waiting, "not acknowledged in time")

    def first_deadline_ns(self) -> int | None:
        """Return when the first of those who wait has waited too long."""
        commits = (*self._under_way.values(), *self._next.values())
        return min((one.deadline_ns for commit in commits for one in commit.waiting), default=None)

    def close(self, env: Env) -> None:
        """End the requests that wait, since the slice is lost."""
        self._is_closed = True
        for commit in (*self._under_way.values(), *self._next.values()):
            self._refuse(env, commit, Response.SERVICE_NOT_AVAILABLE, "the slice has another owner")

    def _refuse(self, env: Env, commit: _Commit, code: Response, remark: str) -> None:
        """Answer who waits for a commit that ends without being acknowledged."""
        for waiting in commit.waiting:
            if self.is_definite(commit):
                waiting.respond(env, waiting.request.reply(code, remark=f"{remark}; the offset is not stored"))
            else:
                self._unknown(env, waiting, f"{remark}; the offset may be stored")

    def _unknown(self, env: Env, waiting: PendingRequest, remark: str) -> None:
        waiting.respond(env, waiting.request.reply(Response.FLUSH_SLAVE_TIMEOUT, remark=remark))
