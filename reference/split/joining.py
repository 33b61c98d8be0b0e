"""How a broker or a store joins the cluster: meta numbers its life, or its disk, and hears that it lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from chaos.node import Env, Malformed
from reference.raft.messages import marked
from reference.split.calls import Calls
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import optional_text, whole

TIMER = "heartbeat"
#: How long meta's answer may take, and after how long another node of it is asked.
TIMEOUT_NS, RETRY_NS = 1_000_000_000, 100_000_000
_MS = 1_000_000
#: Kind of the node → the field with its word, and the field of the answer that numbers it.
_FIELDS: Mapping[str, tuple[str, str]] = {"broker": ("nonce", "life"), "store": ("word", "disk")}
#: Nothing is known yet.
UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class MetaRequest:
    """A request to meta: its code and its fields."""

    code: Request
    fields: Mapping[str, str]
    body: bytes = b""

    def to_command(self, opaque: int) -> Command:
        return Command(code=self.code, opaque=opaque, fields=self.fields, body=self.body)


class Metas:
    """The meta nodes: a request goes to the one that is said to lead, else to each in turn."""

    def __init__(self, calls: Calls, names: Sequence[str], cluster_id: str = "") -> None:
        self.names = names
        self.calls = calls
        self._mark = marked(cluster_id)
        self._turn = 0

    def ask(
        self,
        env: Env,
        code: Request,
        fields: Mapping[str, str],
        then: Callable[[Env, Command | None], None],
        body: bytes = b"",
    ) -> None:
        """Ask once; ``then`` gets the answer, or None where none came. After an answer that names the leader the next
        request goes there."""
        asked = self.names[self._turn % len(self.names)]

        def came(env: Env, answer: Command | None) -> None:
            if answer is None or answer.code in (Response.CONTROLLER_NOT_LEADER, Response.SYSTEM_BUSY):
                leader = answer.fields.get("leader", "") if answer is not None else ""
                self._turn = self.names.index(leader) if leader in self.names else self._turn + 1
            then(env, answer)

        request = MetaRequest(code, {**fields, **self._mark}, body)
        self.calls.ask(env, asked, request, _sound, came, TIMEOUT_NS)

    def report(self, env: Env, code: Request, fields: Mapping[str, str]) -> None:
        """Say something to all of them that needs no answer."""
        command = Command(code=code, flags=ONEWAY, fields={**fields, **self._mark})
        for name in self.names:
            env.send(name, command)


class Joining:
    """A node's registration, which is asked for until meta has numbered it, and the heartbeats from then on."""

    def __init__(
        self, metas: Metas, kind: str, joined: Callable[[Env], None], *, zone: str = "", heartbeat_ms: int = 200
    ) -> None:
        self.number = UNKNOWN  # the life, or the disk
        self._metas = metas
        self._kind = kind
        self._joined = joined
        self._zone = zone
        self._heartbeat_ns = heartbeat_ms * _MS
        self._word = ""

    @property
    def has_joined(self) -> bool:
        return self.number != UNKNOWN

    def start(self, env: Env, word: str) -> None:
        """Register by a word, which is new for a new life or a new disk; what an older word was given is forgotten."""
        self.number, self._word = UNKNOWN, word
        self._ask(env)

    def _ask(self, env: Env) -> None:
        word, (word_field, number_field) = self._word, _FIELDS[self._kind]

        def answered(env: Env, answer: Command | None) -> None:
            if word != self._word or self.has_joined:
                return
            if answer is not None and answer.code == Response.SUCCESS:
                self.number = whole(answer.fields, number_field, UNKNOWN)
            if not self.has_joined:
                self._metas.calls.later(env, RETRY_NS, again)
                return
            self._beat(env)
            env.set_timer(TIMER, self._heartbeat_ns)
            self._joined(env)

        def again(env: Env) -> None:
            if word == self._word and not self.has_joined:
                self._ask(env)

        fields = {"node": env.name, "kind": self._kind, word_field: word, "zone": self._zone}
        self._metas.ask(env, Request.META_REGISTER, fields, answered)

    def _beat(self, env: Env) -> None:
        number = {_FIELDS[self._kind][1]: str(self.number)}
        known = {"node": env.name, "kind": self._kind, "wall_ms": str(env.wall_ns() // _MS)}
        self._metas.report(env, Request.META_HEARTBEAT, {**known, **number})

    def timer(self, env: Env, name: str) -> bool:
        """Handle a timer. Return False if it is another part's."""
        if name != TIMER:
            return False
        if self.has_joined:
            self._beat(env)
            env.set_timer(TIMER, self._heartbeat_ns)
        return True


def _sound(message: Command) -> Command:
    """Return an answer of meta's if what is read of it can be. Raises :class:`chaos.node.Malformed`."""
    optional_text(message.fields, "leader")
    for key in ("life", "disk", "revision"):
        if whole(message.fields, key, 0) < 0:
            raise Malformed(f"{key} is below 0")
    return message
