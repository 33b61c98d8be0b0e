"""The gateway: an object store whose objects stand in a real one, such as S3.

It has the role, the requests and the trace of :mod:`reference.objectstore.node`, and no disk. The real store is asked
by messages to the node's outside (:mod:`reference.objectstore.asking`); this is the step function that decides.

*Who wins* is the store's decision: an object is created where none stands, or replaces the content whose e_tag it
names. Several gateways may share a prefix. An e_tag may be a hash of the content, so a content that comes again would
pass for the old one: each write carries a mark of its own in its head.

*An answer that is lost* (or none in time, 429, 5xx) leaves the outcome of a write open. The same write is then tried
again: its condition fails if it had taken effect, and what stands there has its mark. Where the mark is gone too, the
caller is answered that the outcome is unknown; a conflict is reported only where the write surely never takes effect.

*The trace* names each write before anybody is shown it. A gateway may die between a write and its row, and a write may
take effect when its gateway has given it up. So whatever is read, or is listed with an unknown e_tag, is traced with
``recovered = true`` unless this life has traced its mark (then it may have been traced before).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from chaos import events
from chaos.events import Event, event
from chaos.node import OUTSIDE, Env, NodeSpec
from reference.objectstore import serving
from reference.objectstore.asking import ABSENT, ANY, BARE, CONDITION, SAME, tags
from reference.objectstore.changes import Traced
from reference.objectstore.faults import TIMER as FAULTS_TIMER
from reference.objectstore.serving import EVENTS, Ask, StoreNode, about, about_ask, cas_row, frame, json_of, unframe
from reference.tier.objects import content_hash
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import read_json

#: A request that failed is tried again after this, then after twice as long, up to the second one.
FIRST_PAUSE_NS, LAST_PAUSE_NS = 50_000_000, 400_000_000
#: How the store may refuse a write whose condition does not hold; some say the one for the other.
_REFUSED = (Response.STORE_EXISTS, Response.STORE_CONFLICT)
_RETRY = "retry/"


@event("store_lost")
class StoreLost(Event):
    """A gateway gave up a request: the real store did not answer it in time, or refused it. Of a write it is unknown
    whether it has taken effect, or will."""

    queue: Annotated[int, "index of the queue; -1 where it knows none"] = -1
    caller: Annotated[str, "who asked"]
    key: Annotated[str, "of the object"]
    request: Annotated[str, "the caller's id of the request"]
    verb: Annotated[str, "of the request"]
    error: Annotated[str, "what the last attempt ended with"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What stood under a key when it was last seen. ``version`` is that inside its content, or -1; ``tags`` are the
    store's own."""

    size: int
    hash: int
    version: int
    mark: str
    tags: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class _Work:
    """A request under way. ``mark``: of a write, what distinguishes it from all others. ``doubted``: an attempt of it
    may have taken effect, or may yet. ``put``: what the last attempt asked for."""

    ask: Ask
    deadline_ns: int
    mark: str = ""
    put: Command | None = None
    doubted: bool = False
    failures: int = 0


class Gateway(StoreNode):
    """The node. Options: ``store``, ``prefix``, ``single_writer``, ``timeout_ms``."""

    def __init__(self, spec: NodeSpec) -> None:
        super().__init__(lambda: {key: self._seen[key].size for key in sorted(self._seen)})
        self.single_writer = bool(spec.options.get("single_writer"))
        self._timeout_ns = int(str(spec.options.get("timeout_ms", 3000))) * 1_000_000
        self._seen: dict[str, Seen] = {}
        self._marks: set[str] = set()  # writes that this life has traced
        self._own: dict[str, _Work] = {}  # by mark, writes under way
        self._asked: dict[int, Callable[[Env, Command], None]] = {}  # by opaque
        self._retries: dict[str, Callable[[Env], None]] = {}  # by timer
        self._count = 0
        self._blind: dict[str, str] = {}  # keys with a write without a condition that may take effect at any time

    # --- policy: the decisions that the promises of the store rest on ---

    def fits(self, ask: Ask, found: Seen | None) -> bool:
        """Return whether what stands there is what a compare-and-set is to replace."""
        return ask.expected == (found.version if found else -1)

    def condition(self, ask: Ask, found: Seen | None) -> dict[str, str]:
        """Return under which condition the store shall take this write."""
        if found is None or ask.verb == "put":
            return {CONDITION: ABSENT}
        return {CONDITION: ANY} if self.single_writer else {CONDITION: SAME, **found.tags}

    def has_taken(self, answer: Command) -> bool:
        """Return whether the store has surely taken a write."""
        return answer.code == Response.SUCCESS

    # --- life ---

    def start(self, env: Env) -> None:
        env.trace(events.Start())
        self.ready = True

    def timer(self, env: Env, name: str) -> None:
        if name == FAULTS_TIMER:
            self._faults.timer(env)
        elif name in self._retries:
            self._retries.pop(name)(env)

    def done(self, env: Env, token: int) -> None:
        """Nothing: it has no disk."""

    def message(self, env: Env, source: str, message: Command) -> None:
        if source == OUTSIDE:
            self._asked.pop(message.opaque)(env, message)
        elif message.code == Request.STORE_CLEAR and not message.is_response:
            self._clear(env, source, message)
        else:
            super().message(env, source, message)

    def _clear(self, env: Env, source: str, message: Command) -> None:
        """Delete everything, for the harness, and refuse all other requests: the run is over. What is under way ends
        before."""
        self.ready = False
        if self._busy:
            self._later(env, FIRST_PAUSE_NS, lambda env: self._clear(env, source, message))
            return
        cleared = Command(code=Request.STORE_CLEAR)
        self._send(env, cleared, lambda env, answer: env.send(source, message.reply(answer.code)))

    def _later(self, env: Env, delay_ns: int, step: Callable[[Env], None]) -> None:
        self._count += 1
        timer = f"{_RETRY}{self._count}"
        self._retries[timer] = step
        env.set_timer(timer, delay_ns)

    def _send(self, env: Env, request: Command, then: Callable[[Env, Command], None]) -> None:
        """Ask the real store; ``then`` is called in a later step."""
        self._count += 1
        self._asked[self._count] = then
        env.send(OUTSIDE, request.numbered(self._count))

    # --- requests ---

    def _serve(self, env: Env, ask: Ask) -> None:
        work = _Work(ask=ask, deadline_ns=env.mono_ns() + self._timeout_ns)
        if ask.verb == "get":
            self._get(env, work)
            return
        self._busy[ask.key] = deque()
        if ask.verb == "delete":
            self._delete(env, work)
            return
        self._count += 1
        work.mark = f"{env.name}/{env.incarnation}/{self._count}"
        self._own[work.mark] = work
        found = None if self.single_writer else self._seen.get(ask.key)
        if ask.verb == "put" or (found is not None and self.fits(ask, found)):
            self._write(env, work, found)
        else:
            self._look(env, work)

    def _again(self, env: Env, work: _Work, answer: Command, step: Callable[[Env, _Work], None]) -> None:
        """Do a step again after a pause, or give the request up."""
        pause_ns = min(FIRST_PAUSE_NS << work.failures, LAST_PAUSE_NS)
        work.failures += 1
        if env.mono_ns() + pause_ns >= work.deadline_ns:
            self._lose(env, work, answer.remark)
            return
        self._later(env, pause_ns, lambda env: step(env, work))

    def _lose(self, env: Env, work: _Work, error: str) -> None:
        ask = work.ask
        if work.doubted and self._is_blind(work):
            self._blind[ask.key] = work.mark
        env.trace(StoreLost(**about_ask(ask), verb=ask.verb, error=error))
        self._respond(env, ask, ask.message.reply(Response.SYSTEM_ERROR, remark=f"the store: {error}"))
        self._over(env, work)

    def _over(self, env: Env, work: _Work) -> None:
        """A request is answered, or given up: serve those that wait for it."""
        self._own.pop(work.mark, None)
        if work.ask.verb in ("put", "cas", "delete"):
            self._go_on(env, work.ask.key)

    def _finish(self, env: Env, work: _Work, code: Response, found: Seen | None = None, **more: Any) -> None:
        """Trace and answer a request that has changed nothing."""
        self._end(env, work.ask, code, found, **more)
        self._over(env, work)

    # --- reads ---

    def _get(self, env: Env, work: _Work) -> None:
        def got(env: Env, answer: Command) -> None:
            if answer.code == Response.SUCCESS:
                found, body = self._learn(env, work.ask.key, answer)
                if found is None:
                    self._finish(env, work, Response.SYSTEM_ERROR, outcome="damaged")
                else:
                    self._finish(env, work, Response.SUCCESS, found, body=body, hash=found.hash, outcome="found")
            elif answer.code == Response.STORE_ABSENT:
                self._seen.pop(work.ask.key, None)
                self._finish(env, work, Response.STORE_ABSENT, outcome="absent")
            else:
                self._again(env, work, answer, self._get)

        self._send(env, Command(code=Request.STORE_GET, fields={"key": work.ask.key}), got)

    def _learn(self, env: Env, key: str, answer: Command) -> tuple[Seen | None, bytes]:
        """Note what stands under a key, and trace it if this life has not; None where the bytes are not ours."""
        try:
            head, at, size = unframe(answer.body) or ({}, 0, 0)
            body = answer.body[at : at + size]
            ask = Ask(key=key, message=Command(code=0, body=body), content=json_of(body), **head["ask"])
            found = Seen(
                size=size,
                hash=head["hash"],
                version=head["version"],
                mark=head["mark"],
                tags=tags(answer.fields),
            )
        except (KeyError, TypeError, ValueError):
            return None, b""
        self._seen[key] = found
        if found.mark not in self._marks:
            self._trace(env, ask, found, recovered=None if found.mark in self._own else True)
        return found, body

    def _list(self, env: Env, ask: Ask) -> None:
        after = ask.message.fields.get("after", "")
        if ask.listing is not None:
            keys = [key for key in ask.listing if key.startswith(ask.key) and key > after]
            page: list[list[object]] = [[key, ask.listing[key]] for key in keys[: serving.LIST_LIMIT]]
            self._send_page(env, ask, page, more=len(page) < len(keys))
            return
        self._list_page(env, _Work(ask=ask, deadline_ns=env.mono_ns() + self._timeout_ns))

    def _list_page(self, env: Env, work: _Work) -> None:
        def listed(env: Env, answer: Command) -> None:
            if answer.code != Response.SUCCESS:
                self._again(env, work, answer, self._list_page)
                return
            found = {key: e_tag for key, _, e_tag in read_json(answer.body)}
            self._look_at(env, work, found, more=answer.fields["more"] == "true")

        after, most = work.ask.message.fields.get("after", ""), str(serving.LIST_LIMIT)
        fields = {"prefix": work.ask.key, "after": after, "most": most}
        self._send(env, Command(code=Request.STORE_LIST, fields=fields), listed)

    def _look_at(self, env: Env, work: _Work, listed: Mapping[str, str], *, more: bool) -> None:
        """Read what a list shows and this life has not seen, so that it is traced before anybody hears of it."""
        waits = {key for key, e_tag in listed.items() if self._tag(key) != e_tag}
        gone, failed = set[str](), list[Command]()

        def answer_if_done(env: Env) -> None:
            if waits:
                return
            if failed:
                self._again(env, work, failed[0], self._list_page)
                return
            sizes = {key: self._seen[key].size if key in self._seen else 0 for key in listed if key not in gone}
            self._send_page(env, work.ask, [[key, size] for key, size in sizes.items()], more=more)

        def looked(env: Env, key: str, answer: Command) -> None:
            waits.discard(key)
            if answer.code == Response.SUCCESS:
                self._learn(env, key, answer)
            elif answer.code == Response.STORE_ABSENT:
                gone.add(key)
            else:
                failed.append(answer)
            answer_if_done(env)

        for key in sorted(waits):
            get = Command(code=Request.STORE_GET, fields={"key": key})
            self._send(env, get, lambda env, answer, key=key: looked(env, key, answer))  # type: ignore[misc]
        answer_if_done(env)

    def _tag(self, key: str) -> str | None:
        found = self._seen.get(key)
        return None if found is None else found.tags.get("e_tag", "")

    # --- writes ---

    def _write(self, env: Env, work: _Work, found: Seen | None = None) -> None:
        """Try a write where ``found`` stands."""
        ask = work.ask
        body = ask.message.body
        whose = {"caller": ask.caller, "verb": ask.verb, "request": ask.request, "queue": ask.queue}
        head = {
            "mark": work.mark,
            "hash": content_hash(body),
            "version": ask.version,
            "ask": {**whose, "expected": ask.expected},
        }
        fields = {"key": ask.key, **self.condition(ask, found)}
        work.put = Command(code=Request.STORE_PUT, fields=fields, body=frame(head, body)[0])
        self._attempt(env, work)

    def _attempt(self, env: Env, work: _Work) -> None:
        """Try it under the condition that it had before, if it had one: so one attempt takes effect, or the other."""
        assert work.put is not None, "it was tried before"
        self._send(env, work.put, lambda env, answer: self._wrote(env, work, answer))

    def _wrote(self, env: Env, work: _Work, answer: Command) -> None:
        if self.has_taken(answer):
            ask = work.ask
            body = ask.message.body
            made = Seen(
                size=len(body),
                hash=content_hash(body),
                version=ask.version,
                mark=work.mark,
                tags=tags(answer.fields),
            )
            self._took_effect(env, work, made)
        elif answer.code in _REFUSED:
            self._look(env, work)
        else:
            work.doubted |= answer.code == Response.SYSTEM_ERROR
            self._again(env, work, answer, self._look if self._is_blind(work) else self._attempt)

    def _is_blind(self, work: _Work) -> bool:
        """Return whether the store takes this write whatever stands there."""
        return work.put is not None and work.put.fields[CONDITION] == ANY

    def _took_effect(self, env: Env, work: _Work, made: Seen) -> None:
        ask = work.ask
        self._seen[ask.key] = made
        self._blind.pop(ask.key, None)
        if made.mark not in self._marks:
            self._trace(env, ask, made)
        self._respond(env, ask, ask.message.reply(fields=about(made)))
        self._over(env, work)

    def _look(self, env: Env, work: _Work) -> None:
        """Find out what stands where a write is to go, or did not go."""

        def looked(env: Env, answer: Command) -> None:
            if answer.code == Response.SUCCESS:
                found, body = self._learn(env, work.ask.key, answer)
                if found is None:
                    self._finish(env, work, Response.SYSTEM_ERROR, outcome="damaged")
                else:
                    self._decide(env, work, found, body)
            elif answer.code == Response.STORE_ABSENT:
                self._seen.pop(work.ask.key, None)
                self._decide(env, work, None, b"")
            else:
                self._again(env, work, answer, self._look)

        self._send(env, Command(code=Request.STORE_GET, fields={"key": work.ask.key}), looked)

    def _decide(self, env: Env, work: _Work, found: Seen | None, body: bytes) -> None:
        """Decide what becomes of a write, knowing what stands there."""
        ask = work.ask
        if found is not None and found.mark == self._blind.get(ask.key):
            del self._blind[ask.key]
        if found is not None and found.mark == work.mark:
            self._took_effect(env, work, found)
        elif ask.key in self._blind or (work.doubted and self._is_blind(work)):
            # It would overwrite whatever is written now.
            self._again(env, work, Command(code=0, remark="an earlier write may still take effect"), self._look)
        elif ask.verb == "put" and found is not None:
            self._finish(env, work, Response.STORE_EXISTS, found, hash=found.hash, outcome="exists", size=found.size)
        elif ask.verb == "put" or self.fits(ask, found):
            self._write_once_more(env, work, found)
        elif work.doubted and (found is None or found.version != ask.version):
            self._lose(env, work, "the write may have taken effect, and something else has replaced it")
        else:
            row = cas_row(ask) | {"hash": content_hash(ask.message.body), "outcome": "conflict"}
            self._finish(env, work, Response.STORE_CONFLICT, found, body=body, **row)

    def _write_once_more(self, env: Env, work: _Work, found: Seen | None) -> None:
        """Write where what stands there allows it, within the request's time: another one may always be faster."""
        if env.mono_ns() >= work.deadline_ns:
            self._lose(env, work, "others were faster again and again")
        else:
            self._write(env, work, found)

    def _delete(self, env: Env, work: _Work) -> None:
        key = work.ask.key

        def looked(env: Env, answer: Command) -> None:
            if answer.code == Response.SUCCESS:
                self._send(env, Command(code=Request.STORE_DELETE, fields={"key": key}), deleted)
            elif answer.code == Response.STORE_ABSENT and not work.doubted:
                self._seen.pop(key, None)
                self._finish(env, work, Response.STORE_ABSENT, outcome="absent")
            else:
                deleted(env, answer)

        def deleted(env: Env, answer: Command) -> None:
            if answer.code in (Response.SUCCESS, Response.STORE_ABSENT):
                self._seen.pop(key, None)
                self._finish(env, work, Response.SUCCESS, outcome="deleted")
            else:
                work.doubted |= answer.code == Response.SYSTEM_ERROR
                self._again(env, work, answer, self._delete)

        self._send(env, Command(code=Request.STORE_GET, fields={"key": key, BARE: "true"}), looked)

    def _trace(self, env: Env, ask: Ask, found: Seen, *, recovered: bool | None = None) -> None:
        """Trace a write that has taken effect."""
        self._marks.add(found.mark)
        row: Mapping[str, Any] = {"hash": found.hash, "outcome": "created", "size": found.size}
        if ask.verb == "cas":
            row = self._in_short(ask, cas_row(ask) | {"hash": found.hash, "outcome": "applied"})
            self._traced_of[ask.key] = Traced.of(found.hash, ask.content)
        env.trace(EVENTS[ask.verb](**about_ask(ask), **row, recovered=recovered))
