"""What the golden pages of heartbeats can do and show. The controllers are real; the page plays the brokers of group g,
whose ids count from 1. Raft's own messages are delivered with all others, and not shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.node import NodeSpec
from reference.controller.heartbeats import Gathered, read_bundle
from reference.controller.node import Controller
from reference.wire.codes import Request
from reference.wire.command import Command
from reference.wire.fields import to_json
from tests.reference.raft_scenario import ELECTION
from tests.reference.raftnet import MS
from tests.reference.step_world import Held, StepScenario

GROUP, PASS_ON, SCAN = "g", "pass on", "scan"
_SET_UP = "the page's set-up"


class HeartbeatScenario(StepScenario):
    """Controllers ``a``, ``b``, ``c``, …, all with these parts."""

    def __init__(self, gathered: type[Gathered] = Gathered) -> None:
        super().__init__()
        self._gathered = gathered
        self._ids: dict[str, int] = {}

    # What is to be seen

    def say(self, held: Held) -> str:
        if held.message.code != Request.CONTROLLER_PASS_HEARTBEATS:
            return ""
        told = read_bundle(held.message.body, 0)
        return "heartbeats: " + ", ".join(f"{name} {-one.heard_ns // MS} ms ago" for name, one in told.items())

    def row(self, node: str, f: str, value: Mapping[str, Any]) -> str:
        if f == "raft" and value["role"] == "leader":
            return f"{node} leads in term {value['epoch']}"
        entry = value.get("entry", {})
        if entry.get("type") == "elect":
            return f"{node} applies: {entry['master']} is the master of epoch {entry['master_epoch']}"
        return f"{node} applies: no master" if entry.get("type") == "masterless" else ""

    # Commands

    def do_controllers(self, *names: str, broker_timeout_ms: str = "1500") -> None:
        options = {"controllers": names, "broker_timeout_ms": int(broker_timeout_ms)}

        def make(name: str) -> Controller:
            return Controller(
                NodeSpec(name=name, role="controller", package="reference", options=options), gathered=self._gathered
            )

        self.begin(
            {name: lambda name=name: make(name) for name in names}, played={_SET_UP: lambda source, message: None}
        )

    def do_elect(self, node: str) -> None:
        """Make it the leader, without showing how."""
        raft = self.world.nodes[node].raft
        while not raft.is_leader:
            self.do_fire(node, ELECTION)
            self.do_deliver()
        self.do_deliver()

    def do_group(self, leader: str, *brokers: str) -> None:
        """Register the brokers of the group, have the first one elected, and the others in the SyncStateSet."""
        for number, broker in enumerate(brokers, 1):
            self._ids[broker] = number
            self.world.played = {**self.world.played, broker: lambda source, message: None}
            about = {"clusterName": "c", "brokerName": GROUP}
            check = {"appliedBrokerId": str(number), "registerCheckCode": f"{broker};1"}
            self._ask(leader, Request.CONTROLLER_APPLY_BROKER_ID, about | check)
            life = {"brokerId": str(number), "brokerAddress": broker, "generation": "1", "life": broker}
            self._ask(leader, Request.CONTROLLER_REGISTER_BROKER, about | life)
            self._beat(broker, leader)
        self._ask(leader, Request.CONTROLLER_ELECT_MASTER, {"brokerName": GROUP, "brokerId": "1"})
        epochs = {"brokerName": GROUP, "masterBrokerId": "1", "masterEpoch": "1"}
        body = to_json({"syncStateSet": list(self._ids.values()), "syncStateSetEpoch": 1})
        self._ask(leader, Request.CONTROLLER_ALTER_SYNC_STATE_SET, epochs, body)

    def _ask(self, leader: str, code: Request, fields: Mapping[str, str], body: bytes = b"") -> None:
        request = Command(code=code, fields=dict(fields), body=body)
        self.world.nodes[leader].message(self.world.envs[leader], _SET_UP, request)
        self.settle()
        self.do_deliver()

    def _beat(self, broker: str, node: str, **more: str) -> None:
        fields = {"brokerAddr": broker, "brokerName": GROUP, "brokerId": str(self._ids[broker])}
        fields |= {"epoch": "1", "maxOffset": "0", "generation": "1", **more}
        request = Command(code=Request.BROKER_HEARTBEAT, fields=fields)
        self.world.nodes[node].message(self.world.envs[node], broker, request)
        self.settle()

    def do_beat(self, broker: str, node: str) -> None:
        """A broker that sends its heartbeats to one controller at a time sends one to this one."""
        self._beat(broker, node, passOn="true")

    def do_pass_on(self, node: str) -> None:
        """The time comes at which it tells the leader, if it has anything to tell."""
        env = self.world.envs[node]
        if PASS_ON in env.timers:
            self.do_fire(node, PASS_ON)
        else:
            self.lines.append(f"  {node} has nothing to pass on")

    def do_scan(self, node: str) -> None:
        """It looks whether a group has lost its master."""
        self.do_fire(node, SCAN)

    def do_alive(self, *nodes: str) -> None:
        """When each has heard the brokers, by its own clock, and who is dead by that."""
        for name in nodes:
            told = [f"{broker} {self._heard(name, broker)}" for broker in self._ids]
            self.lines.append(f"  {name} has heard " + ", ".join(told))

    def _heard(self, name: str, broker: str) -> str:
        node, env = self.world.nodes[name], self.world.envs[name]
        known = node._heartbeats.get(broker)
        if known is None:
            return "never"
        return f"{(env.mono_ns() - known.heard_ns) // MS} ms ago{'' if node.is_alive(env, known) else ' (dead)'}"
