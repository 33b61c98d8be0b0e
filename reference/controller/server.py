"""A node that answers requests through a replicated log: what controllers and others that agree on something share.

Requests that change something become entries of the log, and are answered when they have been applied; none waits for
another's commit. Reads go through ReadIndex, on followers too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from chaos.node import Env, Malformed, NodeSpec
from reference.controller.dispatch import NOT_LEADER, Dispatch, Written
from reference.controller.replicas import Outcome
from reference.raft.member import Raft
from reference.raft.options import RaftOptions
from reference.raft.policy import RaftPolicy
from reference.raft.state_machine import StateMachine
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.fields import text, to_json

_CODE = Response.CONTROLLER_INVALID_REQUEST

Respond = Callable[[Env, Outcome], Command]


class LogServer(StateMachine):
    """A member of Raft, and its requests by their codes. Who extends it says what the log's entries do."""

    #: What it is called in refusals.
    noun = "controller"

    def __init__(
        self,
        spec: NodeSpec,
        members: Sequence[str],
        dispatch: type[Dispatch],
        *,
        raft: type[Raft] = Raft,
        raft_policy: type[RaftPolicy] = RaftPolicy,
    ) -> None:
        self.members = tuple(members)
        self.raft = raft(spec.name, self.members, self, RaftOptions.of(spec.options), raft_policy)
        self.dispatch = dispatch(self.raft)
        self._writes: dict[int, Callable[[Env, str, Command], None]] = {
            Request.CONTROLLER_TRANSFER_LEADER: self._on_transfer,
            Request.CONTROLLER_CHANGE_MEMBERS: self._on_change_members,
        }
        self._reads: dict[int, Callable[[Command], Callable[[], Command]]] = {}

    # The node

    def start(self, env: Env) -> None:
        self.raft.start(env)

    def message(self, env: Env, source: str, message: Command) -> None:
        if self.raft.message(env, source, message):
            return
        if message.is_response:
            return
        self._request(env, source, message)

    def timer(self, env: Env, name: str) -> None:
        self.raft.timer(env, name)

    def done(self, env: Env, token: int) -> None:
        self.raft.done(env, token)

    def closed(self, env: Env, peer: str) -> None:
        self.raft.closed(env, peer)

    # Requests

    def _request(self, env: Env, source: str, message: Command) -> None:
        if message.code == Request.CONTROLLER_GET_METADATA_INFO:
            self._answer(env, source, message, message.reply(fields=self._metadata()))
        elif message.code == Request.DESCRIBE:
            self._answer(env, source, message, message.reply(body=to_json(self.describe(env))))
        elif message.code in self._reads:
            read = self._reads[message.code]
            self._read(env, source, message, read(message))
        elif message.code not in self._writes:
            remark = f"request code {message.code} is not for a {self.noun}"
            self._answer(env, source, message, message.reply(Response.REQUEST_CODE_NOT_SUPPORTED, remark=remark))
        elif not self.raft.is_leader:
            self._answer(env, source, message, self._not_leader(message))
        else:
            self._writes[message.code](env, source, message)

    def _answer(self, env: Env, source: str, request: Command, answer: Command) -> None:
        if not request.is_oneway:
            env.send(source, answer)

    def _not_leader(self, message: Command) -> Command:
        return message.reply(Response.CONTROLLER_NOT_LEADER, remark=NOT_LEADER.remark)

    def logged(self, env: Env, entry: Mapping[str, Any]) -> bytes:
        """Return an entry as it is logged, when its turn has come."""
        return to_json(entry)

    def _propose(self, env: Env, entry: Mapping[str, Any], then: Written, *, own: bool = False) -> None:
        """Log an entry; ``then`` gets its outcome, or None when that can't be known any more."""
        self.dispatch.write(env, lambda env: self.logged(env, entry), then, own=own)

    def _write(self, env: Env, source: str, message: Command, entry: Mapping[str, Any], respond: Respond) -> None:
        def then(env: Env, outcome: Outcome | None) -> None:
            if outcome is None:
                answer = message.reply(Response.SYSTEM_ERROR, remark=f"unknown outcome: this {self.noun} leads no more")
            else:
                answer = respond(env, outcome)
            self._answer(env, source, message, answer)

        self._propose(env, entry, then)

    def _read(self, env: Env, source: str, message: Command, respond: Callable[[], Command]) -> None:
        def then(env: Env, code: int) -> None:
            if code == Response.SUCCESS:
                answer = respond()
            elif code == NOT_LEADER.code:
                answer = self._not_leader(message)
            else:
                answer = message.reply(code, remark="busy: too many reads wait; ask again later")
            self._answer(env, source, message, answer)

        self.dispatch.read(env, then)

    # The members

    def _on_transfer(self, env: Env, source: str, message: Command) -> None:
        target = text(message.fields, "controllerName", _CODE)
        able = [name for name in self.raft.members.voters if name != self.raft.name]
        if target not in able:
            raise Malformed(f"controllerName must be one of {', '.join(able)}, not {target!r}", _CODE)

        def then(env: Env, done: bool) -> None:
            remark = "" if done else f"{target} did not take over within an election timeout"
            self._answer(env, source, message, message.reply(0 if done else Response.SYSTEM_BUSY, remark=remark))

        if self.raft.is_handing_over:
            self._answer(env, source, message, message.reply(Response.SYSTEM_BUSY, remark="a transfer is under way"))
        else:
            self.raft.transfer(env, target, then)

    def _on_change_members(self, env: Env, source: str, message: Command) -> None:
        """Answered once the change is committed. Who joins is a learner then, and a voter when it has caught up."""
        name, change = text(message.fields, "controllerName", _CODE), text(message.fields, "change", _CODE)
        changes = {"add": self.raft.add_learner, "remove": self.raft.remove}
        if change not in changes:
            raise Malformed(f"change must be add or remove, not {change!r}", _CODE)
        if name == self.raft.name and change == "remove":
            raise Malformed(f"{name} leads: let another controller lead before it is removed", _CODE)

        def then(env: Env, outcome: object, index: int) -> None:
            code = Response.SUCCESS if index >= 0 else Response.SYSTEM_ERROR
            remark = "" if index >= 0 else f"unknown outcome: this {self.noun} leads no more"
            self._answer(env, source, message, message.reply(code, remark=remark))

        reason = self.raft.why_no_change()
        if (name in self.raft.members.all) == (change == "add"):
            self._answer(env, source, message, message.reply())
        elif reason:
            self._answer(env, source, message, message.reply(Response.SYSTEM_BUSY, remark=f"not now: {reason}"))
        else:
            changes[change](env, name, then)

    def _metadata(self) -> dict[str, str]:
        members = self.raft.members
        metadata = {"group": "controller", "peers": ";".join(f"{name}:{name}" for name in members.voters)}
        if members.learners:
            metadata["learners"] = ";".join(members.learners)
        metadata["isLeader"] = "true" if self.raft.is_leader else "false"
        if self.raft.leader:
            metadata |= {"controllerLeaderId": self.raft.leader, "controllerLeaderAddress": self.raft.leader}
        return metadata

    def describe(self, env: Env) -> dict[str, Any]:
        """Return what this node says of itself."""
        raft, voters = self.raft, list(self.raft.members.voters)
        known = {"role": raft.role, "term": raft.term, "leader": raft.leader, "commit": raft.commit}
        return known | {"voters": voters}
