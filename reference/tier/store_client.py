"""The tier's side of the connection with the object store: requests, their answers, and their time limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from chaos import events
from chaos.node import Env
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import listed, read_json, request_number, whole

TIMER = "tier-timeout"

_CODES = {
    "put": Request.STORE_PUT,
    "cas": Request.STORE_CAS,
    "get": Request.STORE_GET,
    "list": Request.STORE_LIST,
    "delete": Request.STORE_DELETE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How a request ended. ``lost``: no usable answer; a write may or may not have taken effect, now or later."""

    lost: bool = False
    code: int = -1
    body: bytes = b""
    hash: int = -1
    more: bool = False  # of a list: there are keys behind these
    keys: tuple[str, ...] = ()  # of a list

    @property
    def ok(self) -> bool:
        return self.code == Response.SUCCESS

    @property
    def absent(self) -> bool:
        return self.code == Response.STORE_ABSENT

    def listed(self) -> list[str]:
        """Return the keys in the answer to a ``list``."""
        return list(self.keys)


LOST = Answer(lost=True)
_UNDERSTOOD = (Response.SUCCESS, Response.STORE_EXISTS, Response.STORE_CONFLICT, Response.STORE_ABSENT)


def _read(message: Command, verb: str) -> Answer:
    """Read an answer. Raises :class:`chaos.node.Malformed`."""
    about = message.fields
    keys = listed({"keys": read_json(message.body)}, "keys", str, int) if verb == "list" and not message.code else ()
    return Answer(
        code=message.code,
        body=message.body,
        hash=whole(about, "hash", -1),
        more=about.get("more") == "true" and bool(keys),
        keys=tuple(key for key, _ in keys),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    verb: str
    deadline_ns: int
    then: Callable[[Env, Answer], None]


class StoreClient:
    """Requests to one object store, each of which ends exactly once: answered, or lost.

    All have the same time limit, so that the oldest is always the next to expire and one timer serves them all.
    """

    def __init__(self, store: str, timeout_ns: int) -> None:
        self.store = store
        self._timeout_ns = timeout_ns
        self._pending: dict[int, _Pending] = {}  # by opaque, oldest first
        self._requests = 0
        self._timer_set = False

    def next_request(self, env: Env) -> str:
        """Return the id that the next request will carry; unique in the run, also in the object store's trace."""
        return f"{env.name}/{env.incarnation}/{self._requests + 1}"

    def ask(
        self,
        env: Env,
        verb: str,
        key: str,
        then: Callable[[Env, Answer], None],
        *,
        queue: int,
        epoch: int,
        offset: int = -1,
        expected: int | None = None,
        after: str = "",
        body: bytes = b"",
    ) -> None:
        """Send a request; ``then`` is called in a later step. ``expected`` is for ``cas``, ``after`` for ``list``."""
        request = self.next_request(env)
        self._requests += 1
        fields = {"prefix" if verb == "list" else "key": key, "request": request, "queue": str(queue)}
        if expected is not None:
            fields["expected"] = str(expected)
        if after:
            fields["after"] = after
        env.trace(events.TierRequest(queue=queue, offset=offset, epoch=epoch, request=request, verb=verb, key=key))
        opaque = request_number(env.incarnation, self._requests)
        self._pending[opaque] = _Pending(verb=verb, deadline_ns=env.mono_ns() + self._timeout_ns, then=then)
        env.send(self.store, Command(code=_CODES[verb], opaque=opaque, fields=fields, body=body))
        if not self._timer_set:
            self._timer_set = True
            env.set_timer(TIMER, self._timeout_ns)

    def message(self, env: Env, source: str, message: Command) -> bool:
        """Take an answer of the store. One that comes after its time limit is dropped."""
        if source != self.store or not message.is_response:
            return False
        pending = self._pending.get(message.opaque)
        if pending is None:
            return True
        answer = _read(message, pending.verb) if message.code in _UNDERSTOOD else LOST
        del self._pending[message.opaque]
        pending.then(env, answer)
        return True

    def timer(self, env: Env) -> None:
        now = env.mono_ns()
        late = [opaque for opaque, pending in self._pending.items() if pending.deadline_ns <= now]
        self._lose(env, late)
        self._timer_set = bool(self._pending)
        if self._pending:
            oldest = next(iter(self._pending.values()))
            env.set_timer(TIMER, max(0, oldest.deadline_ns - now))

    def closed(self, env: Env) -> None:
        """Lose everything under way: the connection broke."""
        self._lose(env, list(self._pending))

    def _lose(self, env: Env, opaques: list[int]) -> None:
        # Taken out first: what is called may ask again.
        for pending in [self._pending.pop(opaque) for opaque in opaques]:
            pending.then(env, LOST)
