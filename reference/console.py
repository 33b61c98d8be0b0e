"""A client for experiments by hand: looks at a cluster, makes topics, sends, reads and switches masters.

``NODE_ADDRESSES='NAME=HOST:PORT …' python -m reference.console COMMAND …``. It needs the standard library and the
nodes' own code only, so it runs in a container of the nodes' image: it is the service ``harness`` of the docker-compose
file that ``stormproof compose`` writes.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

from chaos.shell.environment import TOKEN, addresses_in
from chaos.shell.launch import address
from reference.broker import records
from reference.wire.codec import RemotingCodec
from reference.wire.codes import Request, Response
from reference.wire.command import Command

ANSWER_S = 5.0
PULLED = 32


class NoAnswer(Exception):
    """A node could not be asked, or refused."""


class Console:
    """Asks nodes by name; a connection for each request."""

    def __init__(self, addresses: Mapping[str, str], token: str = "") -> None:
        self._token = token
        self.nodes = tuple(addresses)
        self._addresses = addresses
        self._codec = RemotingCodec()

    def ask(self, node: str, message: Command) -> Command:
        """Send a request and return its answer. Raises :class:`NoAnswer`, also when the answer is anything but
        success."""
        hello = {"from": f"console-{socket.gethostname()}-{os.getpid()}", "to": node, "token": self._token}
        buffer = bytearray()
        try:
            with socket.create_connection(address(self._addresses[node]), timeout=ANSWER_S) as connection:
                connection.sendall(json.dumps(hello).encode() + b"\n" + self._codec.encode(message))
                while not (answers := self._codec.decode(buffer)):
                    data = connection.recv(65536)
                    if not data:
                        raise NoAnswer(f"{node} has closed the connection")
                    buffer += data
        except OSError as error:
            raise NoAnswer(f"{node}: {error}") from error
        if answers[0].code != Response.SUCCESS:
            raise NoAnswer(f"{node}: code {answers[0].code}: {answers[0].remark}")
        return answers[0]

    def describe(self, node: str) -> dict[str, Any]:
        """Return what a node says of itself."""
        description: dict[str, Any] = json.loads(self.ask(node, Command(code=Request.DESCRIBE)).body)
        return description

    def place(self, topic: str, queue: int) -> tuple[str, dict[str, str]]:
        """Return the broker that has a queue, and what requests call the queue there: a topic's queues are counted
        through all broker names of its route."""
        first, route = 0, self._route(topic)
        masters = {one["brokerName"]: one["brokerAddrs"].get("0", "") for one in route["brokerDatas"]}
        for found in route["queueDatas"]:
            name, count = found["brokerName"], int(found["writeQueueNums"])
            if queue < first + count:
                if not masters.get(name):
                    raise NoAnswer(f"no broker serves {name}, which has queue {queue} of {topic}")
                return masters[name], {"bname": name, "queueId": str(queue - first)}
            first += count
        raise NoAnswer(f"{topic} has {first} queues, and no queue {queue}")

    def _route(self, topic: str) -> dict[str, Any]:
        """Return a topic's route, as the first name server that answers knows it."""
        return self._first("nameserver", Command(code=Request.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic}))[1]

    def _first(self, role: str, message: Command) -> tuple[str, dict[str, Any]]:
        """Return the first node of a role that does what it is asked, and the JSON of its answer."""
        problem = NoAnswer(f"this cluster has no {role}")
        for node in self._of(role):
            try:
                return node, json.loads(self.ask(node, message).body or b"{}")
            except NoAnswer as error:
                problem = error
        raise problem

    def make_topic(self, topic: str, queues: int) -> str:
        fields = {"topic": topic, "readQueueNums": str(queues), "writeQueueNums": str(queues), "perm": "6"}
        node, _ = self._first("broker", Command(code=Request.UPDATE_AND_CREATE_TOPIC, fields=fields))
        return f"{node} made {topic} with {queues} queues"

    def send(self, topic: str, queue: int, text: str) -> str:
        master, place = self.place(topic, queue)
        fields = {
            "producerGroup": "by-hand",
            "topic": topic,
            **place,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "sysFlag": "0",
            "bornTimestamp": "0",
            "flag": "0",
        }
        answer = self.ask(master, Command(code=Request.SEND_MESSAGE, fields=fields, body=text.encode()))
        return f"{master} has it at offset {answer.fields['queueOffset']}"

    def read(self, topic: str, queue: int, offset: int) -> list[str]:
        """Return the messages from this offset on, as ``OFFSET TEXT``; at most :data:`PULLED`."""
        master, place = self.place(topic, queue)
        fields = {
            "consumerGroup": "by-hand",
            "topic": topic,
            **place,
            "queueOffset": str(offset),
            "maxMsgNums": str(PULLED),
            "sysFlag": "0",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subVersion": "0",
        }
        answer = self.ask(master, Command(code=Request.PULL_MESSAGE, fields=fields))
        found = records.decode_all(answer.body)
        return [f"{record.offset} {record.body.decode('utf-8', 'replace')}" for record in found]

    def switch(self, broker: str) -> str:
        """Have the controllers make this broker the master of its group."""
        for node in self._of("controller"):
            try:
                description = self.describe(node)
            except NoAnswer:
                continue
            if description["role"] != "leader":
                continue
            for name, group in description["groups"].items():
                if broker in group["brokers"]:
                    return self._elect(node, name, broker, str(group["brokers"][broker]))
            raise NoAnswer(f"{node} knows no broker {broker}")
        raise NoAnswer("no controller leads")

    def _elect(self, controller: str, group: str, broker: str, broker_id: str) -> str:
        fields = {
            "clusterName": "stormproof",
            "brokerName": group,
            "brokerId": broker_id,
            "designateElect": "true",
        }
        answer = self.ask(controller, Command(code=Request.CONTROLLER_ELECT_MASTER, fields=fields))
        return f"{broker} is the master of epoch {answer.fields['masterEpoch']}"

    def _of(self, role: str) -> list[str]:
        return [node for node in self.nodes if node.rpartition("-")[0] == role]


def state(console: Console) -> list[str]:
    """Return a line for each node: what it is, or why it doesn't say."""
    lines = []
    for node in console.nodes:
        try:
            words = _words(console.describe(node))
        except NoAnswer as error:
            words = [str(error)]
        lines.append(f"{node:<14} {'; '.join(words) or 'there'}")
    return lines


def _words(description: Mapping[str, Any]) -> list[str]:
    words = [str(description["role"])] if "role" in description else []
    words += [f"{name} {description[name]}" for name in ("term", "epoch", "confirm") if name in description]
    groups = description.get("groups", {})
    if description.get("role") == "leader" and "owners" not in description:
        for name, group in groups.items():
            in_sync = ", ".join(sorted(group.get("set", ())))
            words.append(f"{name}: master {group.get('master') or 'none'}, in sync {in_sync or 'none'}")
    if "disk" in description:
        leads = sum(group["role"] == "leader" for group in groups.values())
        words.append(f"disk {description['disk']}; {len(groups)} groups, of which it leads {leads}")
    words += [f"{name}: {one['state']}, epoch {one['epoch']}" for name, one in description.get("slices", {}).items()]
    if description.get("role") == "leader":
        owners = description.get("owners", {}).items()
        words += [f"{name}: {one['broker'] or 'no broker'}, epoch {one['epoch']}" for name, one in owners]
    return words


def main() -> None:
    parser = argparse.ArgumentParser(prog="harness", description="Look at the cluster and use it, by console.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("state", help="what each node says of itself")
    topic = commands.add_parser("topic", help="make a topic")
    topic.add_argument("topic")
    topic.add_argument("queues", type=int)
    send = commands.add_parser("send", help="append a message to a queue")
    read = commands.add_parser("read", help="read messages of a queue, from an offset on")
    for each in (send, read):
        each.add_argument("topic")
        each.add_argument("queue", type=int)
    send.add_argument("text")
    read.add_argument("offset", type=int)
    commands.add_parser("switch", help="make a broker the master").add_argument("broker")
    arguments = parser.parse_args()
    try:
        console = Console(addresses_in(os.environ), os.environ.get(TOKEN, ""))
    except ValueError as error:
        sys.exit(str(error))
    try:
        match arguments.command:
            case "topic":
                print(console.make_topic(arguments.topic, arguments.queues))
            case "send":
                print(console.send(arguments.topic, arguments.queue, arguments.text))
            case "read":
                print("\n".join(console.read(arguments.topic, arguments.queue, arguments.offset)))
            case "switch":
                print(console.switch(arguments.broker))
            case _:
                print("\n".join(state(console)))
    except NoAnswer as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
