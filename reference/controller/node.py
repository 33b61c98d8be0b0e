"""The controller: decides who is master of a broker group, and which replicas count (RIP-44).

Requests become entries of the Raft log and are answered when they have been applied; none waits for another's commit.
Reads go through ReadIndex, on followers too. (In the mode ``classic`` requests wait for each other, and only the leader
reads: :mod:`reference.controller.dispatch`.) Liveness is the leader's memory: brokers send heartbeats to all
controllers, and a broken connection ends a broker's life at once. A group of the cluster ``unattended`` has no brokers
behind it: its replicas count as living for ever, so that nobody but the clients ever changes what stands there.

Options: ``controllers`` (all members, node names), ``mode`` (``parallel`` or ``classic``), ``broker_timeout_ms``,
``unclean`` (elect outside the SyncStateSet), and Raft's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chaos import events
from chaos.node import Env, Malformed, NodeSpec
from reference.controller.dispatch import mode_of
from reference.controller.heartbeats import GATHER_NS, Gathered, pass_on, read_bundle
from reference.controller.liveness import Heartbeat, Heartbeats
from reference.controller.replicas import (
    BY_CONTROLLER,
    Group,
    Outcome,
    Replicas,
    assignment,
    check_entry,
    read_snapshot,
)
from reference.controller.server import LogServer
from reference.raft.member import Raft
from reference.raft.messages import check_cluster
from reference.raft.policy import RaftPolicy
from reference.wire.codes import Request, Response
from reference.wire.command import ONEWAY, Command
from reference.wire.fields import item, listed, optional_text, read_json, read_object, text, to_json, whole
from reference.wire.properties import FIXED, properties
from reference.wire.requests import MAX_LIVES_CHARACTERS, MAX_REPLICAS

#: The cluster whose groups are entries and nothing else.
UNATTENDED = "unattended"
#: What the controllers remember at most: a snapshot of it is one message.
MAX_GROUPS, MAX_ALIVE = 16_384, 65_536
SCAN_NS = 250_000_000
_CODE = Response.CONTROLLER_INVALID_REQUEST
_SCAN, _LOOK_ON, _PASS_ON = "scan", "look on", "pass on"

#: Entries whose decisions rest on who lives.
_ABOUT_LIFE = frozenset({"elect", "alter", "clean"})


class Controller(LogServer):
    """A node. ``raft``, ``raft_policy``, ``replicas`` and ``gathered`` are the classes of its parts."""

    def __init__(
        self,
        spec: NodeSpec,
        *,
        raft: type[Raft] = Raft,
        raft_policy: type[RaftPolicy] = RaftPolicy,
        replicas: type[Replicas] = Replicas,
        gathered: type[Gathered] = Gathered,
    ) -> None:
        options = spec.options
        controllers = options.get("controllers", (spec.name,))
        assert isinstance(controllers, list | tuple)
        mode = mode_of(options)
        super().__init__(spec, tuple(map(str, controllers)), mode.dispatch, raft=raft, raft_policy=raft_policy)
        self.replicas = replicas(unclean=bool(options.get("unclean", False)))
        self._options = options
        self._timeout_ns = int(str(options.get("broker_timeout_ms", 1500))) * 1_000_000
        self._watch = mode.watch()
        self._heartbeats = Heartbeats()  # by the broker's node name
        self._gathered = gathered()
        self._leader_since_ns: int | None = None
        self._electing: set[str] = set()  # groups for which an election of ours is in the log
        self._writes |= {
            Request.CONTROLLER_ALTER_SYNC_STATE_SET: self._on_alter,
            Request.CONTROLLER_ELECT_MASTER: self._on_elect,
            Request.CONTROLLER_REGISTER_BROKER: self._on_register,
            Request.CLEAN_BROKER_DATA: self._on_clean,
            Request.CONTROLLER_APPLY_BROKER_ID: self._on_apply_id,
        }
        self._reads |= {
            Request.CONTROLLER_GET_NEXT_BROKER_ID: self._next_id,
            Request.CONTROLLER_GET_REPLICA_INFO: self._replica_info,
            Request.CONTROLLER_GET_SYNC_STATE_DATA: self._sync_state_data,
        }

    # The node

    def start(self, env: Env) -> None:
        super().start(env)
        env.set_timer(_SCAN, SCAN_NS)

    def timer(self, env: Env, name: str) -> None:
        if name == _SCAN:
            env.set_timer(_SCAN, SCAN_NS)
            self._scan(env)
        elif name == _LOOK_ON:
            self._scan(env)
        elif name == _PASS_ON:
            self._pass_on(env)
        else:
            super().timer(env, name)

    def closed(self, env: Env, peer: str) -> None:
        super().closed(env, peer)
        gone = self._heartbeats.cut_off(peer)
        if len(gone) == 1:
            self._elect_if_needed(env, gone[0].group)
        elif gone:
            for one in gone:
                self._look_again(one.group)
            env.set_timer(_LOOK_ON, 0)

    # The state machine of the log

    def apply(self, env: Env, index: int, term: int, data: bytes) -> Outcome:
        entry = json.loads(data) if data else {}
        outcome = self.replicas.apply(entry) if entry else Outcome(changed={"type": "noop"})
        changed = dict(outcome.changed)
        if not changed:
            changed = {"type": "none", "op": entry["op"], "group": entry["group"], "code": outcome.code}
            if changed["op"] == "elect" and entry["broker_id"] == BY_CONTROLLER:
                changed["by"] = "controllers"
        if _is_unattended(self.replicas.groups.get(changed.get("group", ""))):
            changed["unattended"] = True
        besides: dict[str, Any] = {"silence_ms": self._timeout_ns // 1_000_000} if changed["type"] == "elect" else {}
        besides |= {**self.raft.log_fields(env, index), **self.raft.committed_fields(term)}
        env.trace(events.Applied(position=index, epoch=term, entry=changed, **besides))
        if self.raft.is_leader and outcome.changed.get("group"):
            self._after_change(env, outcome.changed)
        return outcome

    def check(self, data: bytes) -> None:
        if data:
            check_entry(read_object(data))

    def check_snapshot(self, snapshot: bytes) -> None:
        read_snapshot(snapshot)

    def snapshot(self) -> Iterator[bytes]:
        return self.replicas.pieces()

    def restore(self, env: Env, snapshot: bytes) -> None:
        self.replicas.restore(snapshot)

    def role_changed(self, env: Env) -> None:
        if not self.raft.is_leader:
            self._leader_since_ns = None
            self._electing.clear()
        elif self._leader_since_ns is None:
            self._leader_since_ns = env.mono_ns()
            self._watch.restart(self.replicas.groups)

    def _after_change(self, env: Env, changed: Mapping[str, Any]) -> None:
        name = changed["group"]
        self._watch.changed(name)
        if changed["type"] in ("elect", "alter"):
            self._notify(env, name)
        if changed.get("masterless") and self.raft.leads_committed:
            self._elect_if_needed(env, name)

    # Liveness

    def _on_heartbeat(self, env: Env, source: str, message: Command) -> None:
        fields = message.fields
        generation = max(_whole(fields, "generation", 0), 0)
        standing = (_whole(fields, "epoch", -1), _whole(fields, "maxOffset", -1), generation)
        address, group = optional_text(fields, "brokerAddr", source, _CODE), text(fields, "brokerName", _CODE)
        broker = _whole(fields, "brokerId")
        if broker < 0:
            raise Malformed("brokerId must be 0 or more", _CODE)
        if address not in self._heartbeats and len(self._heartbeats) >= MAX_ALIVE:
            self._heartbeats.remove_dead(lambda known: self.is_alive(env, known))
            if len(self._heartbeats) >= MAX_ALIVE:
                raise Malformed(f"{MAX_ALIVE} brokers live already", _CODE)
        heartbeat = Heartbeat(group, broker, env.mono_ns(), standing, "" if source == address else source)
        self._heard(env, address, heartbeat)
        if fields.get("passOn") == "true" and not self.raft.is_leader and self._gathered.add(address, heartbeat):
            env.set_timer(_PASS_ON, GATHER_NS)

    def _pass_on(self, env: Env) -> None:
        """Send the leader the heartbeats that were gathered."""
        body = self._gathered.bundle(env.mono_ns())
        if self.raft.leader and not self.raft.is_leader:
            env.send(self.raft.leader, pass_on(body, self.raft.cluster_id))

    def _on_bundle(self, env: Env, source: str, message: Command) -> None:
        """Take in what a follower has heard. Who was heard here later is known better. One that was removed may not
        know it."""
        if source not in (*self.raft.others, *self.members):
            raise Malformed(f"{source} is no controller", Response.NO_PERMISSION)
        check_cluster(message, self.raft.cluster_id)
        heartbeats = read_bundle(message.body, env.mono_ns())
        for address, heartbeat in heartbeats.items():
            known = self._heartbeats.get(address)
            if known is None and (len(self._heartbeats) >= MAX_ALIVE or not self.is_alive(env, heartbeat)):
                continue
            if known is None or known.heard_ns < heartbeat.heard_ns:
                self._heard(env, address, heartbeat)

    def _heard(self, env: Env, address: str, heard: Heartbeat) -> None:
        """Take in a heartbeat: a replica that wasn't known to live, or another life of one, may change who can be
        master."""
        known = self._heartbeats.get(address)
        self._heartbeats.put(address, heard)
        if known is None:
            self._elect_if_needed(env, heard.group)
        elif (known.group, known.broker, known.standing[2]) != (heard.group, heard.broker, heard.standing[2]):
            self._look_again(known.group)
            self._look_again(heard.group)

    def _look_again(self, name: str) -> None:
        """Have the next scan look at this group."""
        if self.raft.is_leader:
            self._watch.changed(name)

    def is_alive(self, env: Env, heartbeat: Heartbeat) -> bool:
        return env.mono_ns() - heartbeat.heard_ns <= self._timeout_ns

    def _alive_replicas(self, env: Env, name: str) -> dict[str, list[int]]:
        """Return the ``alive`` of an entry. A new leader gives the known master one timeout to show up."""
        group = self.replicas.groups.get(name)
        if group is not None and _is_unattended(group):
            return {str(broker): [0, 0, group.replicas[broker].generation] for broker in sorted(group.replicas)}
        living = {
            str(known.broker): self._standing(group, known)
            for known in self._heartbeats.of(name).values()
            if self.is_alive(env, known)
        }
        if group is not None and group.master >= 0 and self._in_grace(env):
            living.setdefault(str(group.master), [-1, -1, group.replicas[group.master].generation])
        return living

    def _standing(self, group: Group | None, known: Heartbeat) -> list[int]:
        epoch, end, generation = known.standing
        replica = group.replicas.get(known.broker) if group is not None else None
        return [epoch, end, generation if replica is None else replica.spoke(generation)]

    def _in_grace(self, env: Env) -> bool:
        return self._leader_since_ns is not None and env.mono_ns() - self._leader_since_ns <= self._timeout_ns

    def _scan(self, env: Env) -> None:
        """Look at the groups that may have lost their masters, a bounded number in one step."""
        if not self.raft.is_leader:
            return
        for name in self._watch.due(env.mono_ns(), self.replicas.groups):
            self._elect_if_needed(env, name)
        if self._watch.has_more:
            env.set_timer(_LOOK_ON, 0)

    def _elect_if_needed(self, env: Env, name: str) -> None:
        """Elect a master where there is none, or where it lives no more; one election per group at a time."""
        if not self.raft.is_leader:
            return
        self._watch.changed(name)
        group = self.replicas.groups.get(name)
        if group is None or group.master_epoch == 0:
            self._watch.gone(name)
            return
        if name in self._electing or not self.raft.leads_committed:
            return
        living = self._alive_replicas(env, name)
        if self._master_lives(group, living):
            self._watch_master(env, name, group)
            return
        if group.master < 0 and not self._can_elect(group, living):
            return
        entry: dict[str, Any] = {"op": "elect", "group": name, "broker_id": BY_CONTROLLER, "designate": False}
        self._electing.add(name)
        entry["suspect"] = group.master
        self._propose(env, entry, lambda env, _: self._elected(env, name), own=True)

    def _watch_master(self, env: Env, name: str, group: Group) -> None:
        """Look again when the living master's last heartbeat is too old; until a new leader's patience ends, if there
        was none yet."""
        if _is_unattended(group):
            self._watch.gone(name)
            return
        of_master = [one for one in self._heartbeats.of(name).values() if one.broker == group.master]
        heard = [one.heard_ns for one in of_master if self.is_alive(env, one)]
        self._watch.settled(name, min(heard, default=self._leader_since_ns or 0) + self._timeout_ns)

    def _master_lives(self, group: Group, living: Mapping[str, list[int]]) -> bool:
        at = living.get(str(group.master))
        return at is not None and at[2] == group.replicas[group.master].generation

    def _can_elect(self, group: Group, living: Mapping[str, list[int]]) -> bool:
        ready = {int(broker): (at[0], at[1], at[2]) for broker, at in living.items()}
        ready = {broker: at for broker, at in ready.items() if broker in group.replicas}
        ready = {broker: at for broker, at in ready.items() if at[2] == group.replicas[broker].generation}
        return bool(self.replicas.candidates(group, ready) or self.replicas.unclean_candidates(group, ready))

    def _elected(self, env: Env, name: str) -> None:
        self._electing.discard(name)

    def _notify(self, env: Env, name: str) -> None:
        """Notify the group's living replicas who is master. When this is lost they learn it by polling."""
        group = self.replicas.groups[name]
        fields, body = assignment(group)
        message = Command(code=Request.NOTIFY_BROKER_ROLE_CHANGED, flags=ONEWAY, fields=fields, body=body)
        for broker in sorted(group.replicas):
            address = group.replicas[broker].address
            known = self._heartbeats.get(address)
            if known is not None and known.group == name and self.is_alive(env, known):
                env.send(address, message)

    # Requests

    def _request(self, env: Env, source: str, message: Command) -> None:
        if message.code == Request.BROKER_HEARTBEAT:
            self._on_heartbeat(env, source, message)
            self._answer(env, source, message, message.reply())
        elif message.code == Request.CONTROLLER_PASS_HEARTBEATS:
            self._on_bundle(env, source, message)
        elif message.code == Request.GET_CONTROLLER_CONFIG:
            self._answer(env, source, message, message.reply(body=properties(self._options)))
        elif message.code == Request.UPDATE_CONTROLLER_CONFIG:
            self._answer(env, source, message, message.reply(Response.NO_PERMISSION, remark=FIXED))
        else:
            super()._request(env, source, message)

    def logged(self, env: Env, entry: Mapping[str, Any]) -> bytes:
        """Return an entry as it is logged. Who lives is said as it is then."""
        if entry["op"] in _ABOUT_LIFE:
            entry = {**entry, "alive": self._alive_replicas(env, entry["group"])}
        return super().logged(env, entry)

    # Writes

    def _on_apply_id(self, env: Env, source: str, message: Command) -> None:
        fields = message.fields
        cluster, group = optional_text(fields, "clusterName", code=_CODE), text(fields, "brokerName", _CODE)
        known = self.replicas.groups.get(group)
        if (len(self.replicas.groups) >= MAX_GROUPS) if known is None else (len(known.replicas) >= MAX_REPLICAS):
            raise Malformed(f"there is no room for one more replica of {group}", _CODE)
        entry: dict[str, Any] = {
            "op": "apply_id",
            "cluster": cluster,
            "group": group,
            "broker_id": _whole(fields, "appliedBrokerId", bits=32),
        }
        entry["check_code"] = text(fields, "registerCheckCode", _CODE)

        def respond(env: Env, outcome: Outcome) -> Command:
            about = {"clusterName": cluster, "brokerName": group}
            return message.reply(outcome.code, fields=about, remark=outcome.remark)

        self._write(env, source, message, entry, respond)

    def _on_register(self, env: Env, source: str, message: Command) -> None:
        fields = message.fields
        asked = text(fields, "brokerName", _CODE)
        entry: dict[str, Any] = {"op": "register", "group": asked, "broker_id": _whole(fields, "brokerId")}
        entry |= {"address": optional_text(fields, "brokerAddress", source, _CODE)}
        entry |= {"generation": max(_whole(fields, "generation", 0), 0)}
        entry |= {"life": optional_text(fields, "life", code=_CODE), "clean": fields.get("clean", "true") == "true"}
        if "lives" in fields:
            if len(fields["lives"]) > MAX_LIVES_CHARACTERS:
                raise Malformed(f"lives has more than {MAX_LIVES_CHARACTERS} characters", _CODE)
            entry["lives"] = fields["lives"].split(",")

        def respond(env: Env, outcome: Outcome) -> Command:
            about = {"clusterName": fields.get("clusterName", ""), "brokerName": asked}
            if outcome.code:
                return message.reply(outcome.code, fields=about, remark=outcome.remark)
            group = self.replicas.groups[asked]
            master, body = assignment(group)
            if not self._master_lives(group, self._alive_replicas(env, asked)):
                master = {}
            return message.reply(fields={**about, **master}, body=body)

        self._write(env, source, message, entry, respond)

    def _on_elect(self, env: Env, source: str, message: Command) -> None:
        fields = message.fields
        asked = text(fields, "brokerName", _CODE)
        broker, designate = _whole(fields, "brokerId", BY_CONTROLLER), fields.get("designateElect") == "true"
        entry: dict[str, Any] = {"op": "elect", "group": asked, "broker_id": broker, "designate": designate}
        if fields.get("forceElect") == "true":
            entry["forced"] = True

        def respond(env: Env, outcome: Outcome) -> Command:
            group = self.replicas.groups.get(asked)
            if group is None or outcome.code not in (0, Response.CONTROLLER_MASTER_STILL_EXIST):
                return message.reply(outcome.code, remark=outcome.remark)
            place, _ = assignment(group)
            addresses = {str(broker): group.replicas[broker].address for broker in sorted(group.replicas)}
            members = {"brokerAddrs": addresses, "brokerName": asked, "cluster": group.cluster}
            body = {"brokerMemberGroup": members, "syncStateSet": list(group.members)}
            return message.reply(outcome.code, fields=place, body=to_json(body), remark=outcome.remark)

        self._write(env, source, message, entry, respond)

    def _on_alter(self, env: Env, source: str, message: Command) -> None:
        fields, asked = message.fields, read_object(message.body or b"{}", _CODE)
        group = text(fields, "brokerName", _CODE)
        entry: dict[str, Any] = {"op": "alter", "group": group, "master_id": _whole(fields, "masterBrokerId", -1)}
        entry |= {
            "master_epoch": _whole(fields, "masterEpoch", -1),
            "set_epoch": item(asked, "syncStateSetEpoch", int, -1, _CODE),
        }
        entry["set"] = listed(asked, "syncStateSet", int, code=_CODE)
        if len(entry["set"]) > MAX_REPLICAS:
            raise Malformed(f"a group has at most {MAX_REPLICAS} replicas", _CODE)

        def respond(env: Env, outcome: Outcome) -> Command:
            if outcome.code:
                refused = {"newSyncStateSetEpoch": "0"}
                return message.reply(outcome.code, fields=refused, remark=outcome.remark)
            set_epoch = outcome.changed["set_epoch"]
            body = {"syncStateSet": sorted(set(entry["set"])), "syncStateSetEpoch": set_epoch}
            return message.reply(fields={"newSyncStateSetEpoch": str(set_epoch)}, body=to_json(body))

        self._write(env, source, message, entry, respond)

    def _on_clean(self, env: Env, source: str, message: Command) -> None:
        fields = message.fields
        group, parts = text(fields, "brokerName", _CODE), fields.get("brokerControllerIdsToClean", "").split(";")
        ids = [_whole({"an id to clean": part}, "an id to clean") for part in parts if part]
        entry: dict[str, Any] = {"op": "clean", "group": group, "ids": ids}
        entry["force"] = fields.get("isCleanLivingBroker") == "true"

        def respond(env: Env, outcome: Outcome) -> Command:
            return message.reply(outcome.code, remark=outcome.remark)

        self._write(env, source, message, entry, respond)

    # Reads

    # Each understands its request at once, and returns what makes the answer when the state may be read.

    def _next_id(self, message: Command) -> Callable[[], Command]:
        fields = message.fields
        group = text(fields, "brokerName", _CODE)
        about = {"clusterName": fields.get("clusterName", ""), "brokerName": group}
        return lambda: message.reply(fields={**about, "nextBrokerId": str(self.replicas.next_id(group))})

    def _replica_info(self, message: Command) -> Callable[[], Command]:
        asked = text(message.fields, "brokerName", _CODE)

        def respond() -> Command:
            group = self.replicas.groups.get(asked)
            if group is None:
                return message.reply(Response.CONTROLLER_BROKER_METADATA_NOT_EXIST, remark=f"{asked} is unknown")
            place, body = assignment(group)
            return message.reply(fields=place, body=body)

        return respond

    def _sync_state_data(self, message: Command) -> Callable[[], Command]:
        names = listed({"the body": read_json(message.body or b"[]", _CODE)}, "the body", str, code=_CODE)

        def respond() -> Command:
            groups = {asked: self.replicas.groups[asked] for asked in names if asked in self.replicas.groups}
            table = {asked: self._sync_state(asked, group) for asked, group in groups.items()}
            return message.reply(body=to_json({"replicasInfoTable": table}))

        return respond

    def _sync_state(self, name: str, group: Group) -> dict[str, Any]:
        state: dict[str, Any] = {"masterEpoch": group.master_epoch, "syncStateSetEpoch": group.set_epoch}
        if group.master >= 0:
            state |= {"masterBrokerId": group.master, "masterAddress": group.name(group.master)}
        state |= {"inSyncReplicas": [], "notInSyncReplicas": []}
        for broker in sorted(group.replicas):
            address = group.replicas[broker].address
            replica = {
                "brokerName": name,
                "brokerId": broker,
                "brokerAddress": address,
                "alive": address in self._heartbeats,
            }
            state["inSyncReplicas" if broker in group.members else "notInSyncReplicas"].append(replica)
        return state

    def describe(self, env: Env) -> dict[str, Any]:
        groups = {}
        for name, group in self.replicas.groups.items():
            state: dict[str, Any] = {"master": group.name(group.master) if group.master >= 0 else ""}
            state |= {"epoch": group.master_epoch, "set": group.names(group.members), "set_epoch": group.set_epoch}
            state["brokers"] = {group.replicas[broker].address: broker for broker in sorted(group.replicas)}
            alive = [at for at, known in self._heartbeats.of(name).items() if self.is_alive(env, known)]
            groups[name] = state | {"alive": sorted(alive)}
        return super().describe(env) | {"groups": groups}


def _is_unattended(group: Group | None) -> bool:
    return group is not None and group.cluster == UNATTENDED


def _whole(fields: Mapping[str, str], key: str, default: int | None = None, *, bits: int = 64) -> int:
    return whole(fields, key, default, bits=bits, code=_CODE)
