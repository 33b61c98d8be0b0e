"""Topics that clients create at a broker: meta's log decides, and the answer waits until this broker knows it, too."""

from __future__ import annotations

from dataclasses import dataclass

from chaos.node import Env
from reference.broker.parts import Refused
from reference.broker.records import MAX_TOPIC_BYTES
from reference.split.joining import RETRY_NS, Metas
from reference.split.view import Cluster
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import text, whole

#: Answers by which a meta node refuses a change that another one, or the same one later, may make.
LATER = (Response.CONTROLLER_NOT_LEADER, Response.SYSTEM_BUSY, Response.METADATA_CONFLICT)


@dataclass(slots=True, eq=False)
class _Creation:
    """``revision``: that of meta's catalog with the topic; -1 until meta has answered."""

    source: str
    request: Command
    name: str
    queues: int
    deadline_ns: int
    revision: int = -1
    may_be_made: bool = False  # what became of a request is unknown


class Topics:
    """The topics that are being created."""

    def __init__(self, metas: Metas, cluster: Cluster, timeout_ns: int) -> None:
        self._metas = metas
        self._cluster = cluster
        self._timeout_ns = timeout_ns
        self._creations: list[_Creation] = []

    def create(self, env: Env, source: str, message: Command) -> None:
        """17: create a topic with so many queues in all; one that exists keeps its queues."""
        name, queues = text(message.fields, "topic"), whole(message.fields, "writeQueueNums")
        if queues < 1 or len(name.encode()) > MAX_TOPIC_BYTES or name.startswith("%"):
            raise Refused(Response.INVALID_PARAMETER, f"no topic {name!r} with {queues} queues")
        creation = _Creation(source, message, name, queues, env.mono_ns() + self._timeout_ns)
        self._creations.append(creation)
        self._ask(env, creation)

    def _ask(self, env: Env, creation: _Creation) -> None:
        known = self._cluster.last_topic(creation.name)
        version, keeps = (known.version, not known.deleted) if known is not None else (0, False)
        queues = 0 if keeps else creation.queues  # 0: as many as it has; asked all the same, for this view may be old
        fields = {"topic": creation.name, "queues": str(queues), "expectedVersion": str(version)}

        def again(env: Env) -> None:
            if creation in self._creations:
                self._retry(env, creation)

        def came(env: Env, answer: Command | None) -> None:
            if creation not in self._creations:
                return
            is_unknown = answer is None or answer.code == Response.SYSTEM_ERROR  # it leads no more
            if answer is None or is_unknown or answer.code in LATER:
                creation.may_be_made |= is_unknown
                self._metas.calls.later(env, RETRY_NS, again)
            elif answer.code == Response.SUCCESS:
                creation.revision = whole(answer.fields, "revision", 0)
                self.follow(env)
                self._metas.calls.later(env, max(0, creation.deadline_ns - env.mono_ns()), again)
            else:
                self._creations.remove(creation)
                self._end(env, creation, answer.code, answer.remark)

        self._metas.ask(env, Request.META_TOPIC, fields, came)

    def _retry(self, env: Env, creation: _Creation) -> None:
        """Ask again unless the time is over."""
        if creation.deadline_ns > env.mono_ns():
            self._ask(env, creation)
            return
        self._creations.remove(creation)
        if creation.may_be_made or creation.revision >= 0:
            self._end(env, creation, Response.FLUSH_SLAVE_TIMEOUT, "not known here in time; the topic may yet be made")
        else:
            self._end(env, creation, Response.SYSTEM_BUSY, "retry: meta has no leader that could make the topic")

    def follow(self, env: Env) -> None:
        """Answer what this broker knows by now."""
        known = [one for one in self._creations if 0 <= one.revision <= self._cluster.revision]
        for creation in known:
            self._creations.remove(creation)
            self._end(env, creation, Response.SUCCESS)

    def _end(self, env: Env, creation: _Creation, code: int, remark: str = "") -> None:
        if not creation.request.is_oneway:
            fields = {"incarnation": str(env.incarnation)}
            env.send(creation.source, creation.request.reply(code, fields, remark=remark))
