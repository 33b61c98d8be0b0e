"""What the controllers agree on: the replicas, master and SyncStateSet of each broker group.

RIP-44's state machine, with incarnations on top. :meth:`Replicas.apply` is a pure function of the state and one entry:
whatever a decision needs beside the state (who is alive, how far each replica's log reaches) travels in the entry, and
all checks are made when the entry is applied, so that requests need not wait for each other. An outcome carries
RocketMQ's response code; one that changed something describes that in ``changed``, as ``docs/history.md`` shapes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from chaos.node import Malformed
from reference.wire.codes import Response
from reference.wire.fields import as_object, item, listed, read_object, to_json, whole

T = TypeVar("T")

BY_CONTROLLER = -1
#: So many groups are written into a snapshot in one step.
PIECE_GROUPS = 128


@dataclass(slots=True)
class Replica:
    """One replica: its address (the node's name), the check code it applied with, and its newest known life.

    ``generation`` is what its disk counts (0: none has registered yet), ``life`` a word of that life's own choice. A
    replica that reports neither, as RocketMQ's brokers, has its lives counted here: each registration begins one."""

    address: str
    check_code: str
    generation: int = 0
    life: str = ""

    def spoke(self, generation: int) -> int:
        """Return which of its lives a heartbeat with this ``generation`` is of, 0 for one that reports none; -1:
        unknown."""
        if generation:
            return generation
        return self.generation if self.generation and not self.life else -1


@dataclass(slots=True)
class Group:
    """One broker group. ``master`` is an id, -1 while there is none; the set's epoch counts its changes."""

    cluster: str
    next_id: int = 1
    replicas: dict[int, Replica] = field(default_factory=dict)
    master: int = -1
    master_epoch: int = 0
    members: tuple[int, ...] = ()
    set_epoch: int = 0

    def name(self, broker: int) -> str:
        """Return the node of this id; ``#ID`` for an id that was removed."""
        replica = self.replicas.get(broker)
        return replica.address if replica is not None else f"#{broker}"

    def names(self, ids: Sequence[int]) -> list[str]:
        return [self.name(broker) for broker in ids]


@dataclass(frozen=True, slots=True)
class Outcome:
    """``changed``: what the entry did to the group, as it is traced; empty when it changed nothing."""

    code: int = Response.SUCCESS
    remark: str = ""
    changed: Mapping[str, Any] = field(default_factory=dict)


#: A living replica as the leader knew it: (epoch of its last record, end of its log, generation). The end is -1 if it
#: can't lead. In an entry: ``alive``, by id.
Standing = tuple[int, int, int]


class Frozen:
    """The groups as they were at one moment. Who is about to change a group says so first."""

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self._groups = groups
        self._left = dict.fromkeys(groups)
        self._kept: dict[str, str] = {}

    def keep(self, name: str) -> None:
        if name in self._left and name not in self._kept:
            self._kept[name] = _written(name, self._groups[name])

    def pieces(self) -> Iterator[bytes]:
        """Yield the groups as a JSON object, :data:`PIECE_GROUPS` in a piece."""
        names = list(self._left)
        for start in range(0, len(names) or 1, PIECE_GROUPS):
            some = names[start : start + PIECE_GROUPS]
            text = ", ".join(self._kept.pop(name, "") or _written(name, self._groups[name]) for name in some)
            for name in some:
                del self._left[name]
            yield (("" if start else "{") + text + (", " if start + len(some) < len(names) else "}")).encode()


class Replicas:
    """The state machine. Entries are JSON objects; ``op`` names the method that applies one."""

    def __init__(self, *, unclean: bool = False) -> None:
        self.unclean = unclean
        self.groups: dict[str, Group] = {}
        self._frozen: Frozen | None = None

    def apply(self, entry: Mapping[str, Any]) -> Outcome:
        handler = {
            "apply_id": self._apply_id,
            "register": self._register,
            "elect": self._elect,
            "alter": self._alter,
            "clean": self._clean,
        }[entry["op"]]
        if self._frozen is not None:
            self._frozen.keep(entry["group"])
        return handler(entry)

    def snapshot(self) -> bytes:
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        """Return the snapshot of this moment, some groups at a time, whatever is applied meanwhile. The one asked for
        before can't be read on."""
        self._frozen = Frozen(self.groups)
        return self._frozen.pieces()

    def restore(self, snapshot: bytes) -> None:
        self.groups, self._frozen = read_snapshot(snapshot), None

    # Policy

    def candidates(self, group: Group, alive: Mapping[int, Standing]) -> list[int]:
        """Who may become master without loss: the living members of the SyncStateSet."""
        return [broker for broker in group.members if broker in alive and alive[broker][1] >= 0]

    def unclean_candidates(self, group: Group, alive: Mapping[int, Standing]) -> list[int]:
        """Who may become master when no member of the set lives: nobody, unless losses are permitted; and never one
        whose disk is empty, for it would lose everything and begin all offsets again."""
        if not self.unclean:
            return []
        return [broker for broker in sorted(group.replicas) if broker in alive and alive[broker][1] > 0]

    def best(self, candidates: Sequence[int], alive: Mapping[int, Standing]) -> int:
        return min(candidates, key=lambda broker: (-alive[broker][0], -alive[broker][1], broker))

    def next_epoch(self, group: Group) -> int:
        """Return the epoch of a new master: one that no master had."""
        return group.master_epoch + 1

    def lost_memory(self, replica: Replica, generation: int, lives: Sequence[str], clean: bool) -> bool:
        """Return whether a replica that registers may lack what it once acknowledged: its disk forgot its earlier lives
        (those that it remembers are ``lives``, if it reports them), or it ended uncleanly under asynchronous flush.
        That it counts more lives than before isn't enough: one that went back in time may have begun more of them,
        unheard of."""
        forgot = generation <= replica.generation or (bool(lives) and replica.life not in lives)
        return forgot or not clean

    def is_current(self, group: Group, master_epoch: int, set_epoch: int) -> int:
        """Guard of a change to the set: the response code that refuses it, or success."""
        if master_epoch != group.master_epoch:
            return Response.CONTROLLER_FENCED_MASTER_EPOCH
        if set_epoch != group.set_epoch:
            return Response.CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH
        return Response.SUCCESS

    # Identity

    def next_id(self, name: str) -> int:
        group = self.groups.get(name)
        return group.next_id if group is not None else 1

    def _apply_id(self, entry: Mapping[str, Any]) -> Outcome:
        """Give an id away; the replica that had the same address before is retired with it: its disk forgot that id."""
        name, broker, check_code = entry["group"], entry["broker_id"], entry["check_code"]
        group = self.groups.get(name)
        if group is None:
            if broker != 1:
                return Outcome(Response.CONTROLLER_BROKER_ID_INVALID, f"the first id of {name} is 1, not {broker}")
            group = self.groups[sys.intern(name)] = Group(cluster=sys.intern(entry["cluster"]))
        known = group.replicas.get(broker)
        if known is not None:
            if known.check_code == check_code:
                return Outcome()
            return Outcome(Response.CONTROLLER_BROKER_ID_INVALID, f"id {broker} of {name} belongs to another replica")
        if broker < group.next_id:
            return Outcome(Response.CONTROLLER_BROKER_ID_INVALID, f"id {broker} of {name} was given away before")
        address = check_code.rpartition(";")[0]
        retired = [other for other in sorted(group.replicas) if group.replicas[other].address == address]
        removed = [address] if any(other in group.members for other in retired) else []
        changed = {"type": "apply_id", "group": name, "broker": address, "id": broker, "removed": removed}
        changed |= self._leave(group, retired)
        for other in retired:
            del group.replicas[other]
        group.replicas[broker] = Replica(sys.intern(address), check_code)
        group.next_id = max(group.next_id, broker) + 1
        return Outcome(changed=changed)

    def _register(self, entry: Mapping[str, Any]) -> Outcome:
        """Begin a life of a replica. A master that was restarted needs a new epoch, so its group loses it first."""
        name, broker, generation = entry["group"], entry["broker_id"], entry["generation"]
        group = self.groups.get(name)
        replica = group.replicas.get(broker) if group is not None else None
        if group is None or replica is None:
            return Outcome(Response.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, f"{name} has no broker id {broker}")
        if not (generation or entry["life"] or replica.life):
            generation = replica.generation + 1
        if (generation, entry["address"], entry["life"]) == (replica.generation, replica.address, replica.life):
            return Outcome()  # the same life asks again: its first answer was lost
        lives = entry.get("lives", ())
        lost = replica.generation > 0 and self.lost_memory(replica, generation, lives, entry["clean"])
        replica.address = sys.intern(entry["address"])
        replica.generation, replica.life = generation, entry["life"]
        changed: dict[str, Any] = {"type": "register", "group": name, "broker": replica.address, "id": broker}
        changed |= {"generation": generation, "removed": []}
        if lost and broker in group.members:
            changed |= self._leave(group, [broker]) | {"removed": [replica.address]}
        elif broker == group.master:
            changed |= self._depose(group)
        return Outcome(changed=changed)

    def _leave(self, group: Group, gone: Sequence[int]) -> dict[str, Any]:
        """Take replicas out of the set (and out of the mastership) before any election."""
        change: dict[str, Any] = {}
        if any(broker in group.members for broker in gone):
            group.members = tuple(broker for broker in group.members if broker not in gone)
            group.set_epoch += 1
            change = {"set": group.names(group.members), "set_epoch": group.set_epoch}
        if group.master in gone:
            change |= self._depose(group)
        return change

    def _depose(self, group: Group) -> dict[str, Any]:
        group.master = -1
        group.master_epoch += 1
        return {"masterless": True, "master_epoch": group.master_epoch}

    # Mastership

    def _elect(self, entry: Mapping[str, Any]) -> Outcome:
        """Choose a master: for a broker that asks, for the controller (``broker_id`` -1), or as a planned switch. A
        ``forced`` one may go to a replica outside the set, but where losses are permitted alone."""
        name, caller = entry["group"], entry["broker_id"]
        group = self.groups.get(name)
        if group is None or (caller != BY_CONTROLLER and caller not in group.replicas):
            return Outcome(Response.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, f"{name} has no broker id {caller}")
        alive = living(group, entry["alive"])
        if caller == BY_CONTROLLER and entry.get("suspect", -1) not in (-1, group.master):
            return Outcome(Response.CONTROLLER_MASTER_STILL_EXIST, "the master has changed meanwhile")
        if group.master >= 0 and group.master in alive and not entry["designate"]:
            return Outcome(Response.CONTROLLER_MASTER_STILL_EXIST, f"{group.name(group.master)} is alive")
        if group.master_epoch == 0:
            if caller == BY_CONTROLLER or caller not in alive:
                return Outcome(Response.CONTROLLER_ELECT_MASTER_FAILED, f"no living broker of {name} has asked yet")
            return self._choose(name, group, caller, bootstrap=True, unclean=False)
        candidates = self.candidates(group, alive)
        unclean = False
        if not candidates:
            candidates = self.unclean_candidates(group, alive)
            unclean = bool(candidates)
        if entry["designate"]:
            candidates = [broker for broker in candidates if broker == caller]
        if not candidates and entry.get("forced"):
            candidates = [broker for broker in self.unclean_candidates(group, alive) if broker == caller]
            unclean = bool(candidates)
        if candidates:
            best = self.best(candidates, alive)
            if best == group.master:
                return Outcome(Response.CONTROLLER_MASTER_STILL_EXIST, f"{group.name(best)} is master")
            return self._choose(name, group, best, bootstrap=False, unclean=unclean)
        return self._no_candidate(name, group, caller)

    def _choose(self, name: str, group: Group, master: int, *, bootstrap: bool, unclean: bool) -> Outcome:
        previous = group.members
        group.master = master
        group.master_epoch = self.next_epoch(group)
        group.members = (master,)
        group.set_epoch += 1
        changed = {
            "type": "elect",
            "group": name,
            "master": group.name(master),
            "master_epoch": group.master_epoch,
            "set": group.names(group.members),
            "set_epoch": group.set_epoch,
            "previous_set": group.names(previous),
            "bootstrap": bootstrap,
            "unclean": unclean,
        }
        return Outcome(changed=changed)

    def _no_candidate(self, name: str, group: Group, caller: int) -> Outcome:
        remark = f"no member of the SyncStateSet of {name} can become master"
        if caller != BY_CONTROLLER:
            return Outcome(Response.CONTROLLER_ELECT_MASTER_FAILED, remark)
        if group.master < 0:
            return Outcome(Response.CONTROLLER_MASTER_NOT_AVAILABLE, remark)
        self._depose(group)
        changed = {"type": "masterless", "group": name, "master_epoch": group.master_epoch}
        return Outcome(Response.CONTROLLER_MASTER_NOT_AVAILABLE, remark, changed)

    # The SyncStateSet

    def _alter(self, entry: Mapping[str, Any]) -> Outcome:
        """Replace the set. The same set again gets a new epoch too: it fences proposals that are still on their way."""
        name, members = entry["group"], tuple(sorted(set(entry["set"])))
        group = self.groups.get(name)
        if group is None:
            return Outcome(Response.CONTROLLER_BROKER_METADATA_NOT_EXIST, f"{name} is unknown")
        if entry["master_id"] != group.master or group.master < 0:
            return Outcome(Response.CONTROLLER_INVALID_MASTER, f"broker {entry['master_id']} isn't master of {name}")
        code = self.is_current(group, entry["master_epoch"], entry["set_epoch"])
        if code:
            return Outcome(code, f"{name}: epochs are {group.master_epoch} and {group.set_epoch}")
        alive = living(group, entry["alive"])
        for broker in members:
            if broker not in group.replicas:
                return Outcome(Response.CONTROLLER_INVALID_REPLICAS, f"{name} has no broker id {broker}")
            if broker not in alive:
                return Outcome(Response.CONTROLLER_BROKER_NOT_ALIVE, f"{group.name(broker)} isn't alive")
        if group.master not in members:
            return Outcome(Response.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, "the set lacks the master")
        group.members = members
        group.set_epoch += 1
        changed = {"type": "alter", "group": name, "set": group.names(members), "set_epoch": group.set_epoch}
        return Outcome(changed=changed | {"master_epoch": group.master_epoch})

    # Cleaning

    def _clean(self, entry: Mapping[str, Any]) -> Outcome:
        """Forget replicas that won't come back (the whole group when no id is named). Ids are never used again."""
        name, force = entry["group"], entry["force"]
        group = self.groups.get(name)
        if group is None:
            return Outcome(Response.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, f"{name} is unknown")
        alive = living(group, entry["alive"])
        gone = sorted(set(entry["ids"])) or sorted(group.replicas)
        for broker in gone:
            if broker not in group.replicas:
                return Outcome(Response.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, f"{name} has no broker id {broker}")
            if not force and (broker in alive or broker == group.master):
                return Outcome(Response.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, f"{group.name(broker)} is in use")
        names = group.names(gone)
        changed = {"type": "clean", "group": name, "removed": names} | self._leave(group, gone)
        for broker in gone:
            del group.replicas[broker]
        return Outcome(changed=changed)


def assignment(group: Group) -> tuple[dict[str, str], bytes]:
    """Who is master, as header fields (none while nobody is), and the SyncStateSet as a body."""
    body = to_json({"syncStateSet": list(group.members), "syncStateSetEpoch": group.set_epoch})
    if group.master < 0:
        return {}, body
    fields = {
        "masterBrokerId": str(group.master),
        "masterAddress": group.name(group.master),
        "masterEpoch": str(group.master_epoch),
        "syncStateSetEpoch": str(group.set_epoch),
    }
    return fields, body


#: What an entry holds besides ``op``, by that.
_ENTRIES: Mapping[str, Mapping[str, type]] = {
    "apply_id": {"group": str, "cluster": str, "broker_id": int, "check_code": str},
    "register": {"group": str, "broker_id": int, "address": str, "generation": int, "life": str, "clean": bool},
    "elect": {"group": str, "broker_id": int, "designate": bool, "alive": dict},
    "alter": {"group": str, "master_id": int, "master_epoch": int, "set_epoch": int, "set": list, "alive": dict},
    "clean": {"group": str, "ids": list, "force": bool, "alive": dict},
}


def _written(name: str, group: Group) -> str:
    """Return a group as it stands in a snapshot, with its members in their order. ``asdict`` takes almost three times
    as long."""
    replicas = {broker: {key: getattr(one, key) for key in Replica.__slots__} for broker, one in group.replicas.items()}
    value = {key: replicas if key == "replicas" else getattr(group, key) for key in Group.__slots__}
    return f"{json.dumps(name)}: {json.dumps(value)}"


def check_entry(entry: Mapping[str, Any]) -> None:
    """Raise :class:`chaos.node.Malformed` for what can't be applied."""
    members = _ENTRIES.get(item(entry, "op", str))
    if members is None:
        raise Malformed(f"no entry is called {entry['op']!r}")
    for key, kind in members.items():
        item(entry, key, kind)
    item({"suspect": BY_CONTROLLER, **entry}, "suspect", int)
    listed({"lives": [], **entry}, "lives", str)
    for key in ("set", "ids"):
        listed({key: [], **entry}, key, int)
    for broker, standing in entry.get("alive", {}).items():
        whole({"an id": broker}, "an id")
        listed({"alive": [standing]}, "alive", int, int, int)


def read_snapshot(snapshot: bytes) -> dict[str, Group]:
    """Return the groups of a snapshot. Raises :class:`chaos.node.Malformed`."""
    groups = {}
    for name, content in read_object(snapshot).items():
        value = as_object(content)
        replicas = {
            whole({"an id": broker}, "an id"): _made(Replica, as_object(replica))
            for broker, replica in item(value, "replicas", dict).items()
        }
        members = tuple(listed(value, "members", int))
        group = _made(Group, {**value, "replicas": replicas, "members": members})
        group.cluster = sys.intern(group.cluster)
        for replica in replicas.values():  # heartbeats know these names, too
            replica.address = sys.intern(replica.address)
        groups[sys.intern(name)] = group
    return groups


def _made(kind: type[T], value: Mapping[str, Any]) -> T:
    """Return an object with these fields. Raises :class:`chaos.node.Malformed`."""
    types = {"str": str, "int": int}
    for one in fields(kind):  # type: ignore[arg-type]
        if one.type in types:
            item(value, one.name, types[str(one.type)])
    try:
        return kind(**value)
    except TypeError as error:
        raise Malformed(str(error)) from error


def living(group: Group, alive: Mapping[str, Sequence[int]]) -> dict[int, Standing]:
    """Those of the living whose heartbeats came from the life that is registered."""
    found: dict[int, Standing] = {}
    for broker, (epoch, end, generation) in sorted((int(broker), at) for broker, at in alive.items()):
        replica = group.replicas.get(broker)
        if replica is not None and replica.generation == generation:
            found[broker] = (epoch, end, generation)
    return found
