"""A client for experiments by hand: looks at a cluster, sends, reads and switches masters, one request at a time.

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

    def master(self, topic: str) -> str:
        """Return the broker that takes the topic's messages, as the first name server that answers knows it."""
        request = Command(code=Request.GET_ROUTEINFO_BY_TOPIC, fields={"topic": topic})
        problem = NoAnswer("this cluster has no name server")
        for node in self._of("nameserver"):
            try:
                route = json.loads(self.ask(node, request).body)
            except NoAnswer as error:
                problem = error
                continue
            for broker in route["brokerDatas"]:
                if "0" in broker["brokerAddrs"]:
                    return str(broker["brokerAddrs"]["0"])
            problem = NoAnswer(f"{node} knows no master for {topic}")
        raise problem

    def send(self, topic: str, queue: int, text: str) -> str:
        fields = {
            "producerGroup": "by-hand",
            "topic": topic,
            "queueId": str(queue),
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4",
            "sysFlag": "0",
            "bornTimestamp": "0",
            "flag": "0",
        }
        master = self.master(topic)
        answer = self.ask(master, Command(code=Request.SEND_MESSAGE, fields=fields, body=text.encode()))
        return f"{master} has it at offset {answer.fields['queueOffset']}"

    def read(self, topic: str, queue: int, offset: int) -> list[str]:
        """Return the messages from this offset on, as ``OFFSET TEXT``; at most :data:`PULLED`."""
        fields = {
            "consumerGroup": "by-hand",
            "topic": topic,
            "queueId": str(queue),
            "queueOffset": str(offset),
            "maxMsgNums": str(PULLED),
            "sysFlag": "0",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subVersion": "0",
        }
        answer = self.ask(self.master(topic), Command(code=Request.PULL_MESSAGE, fields=fields))
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
    if description.get("role") == "leader":
        for name, group in description["groups"].items():
            in_sync = ", ".join(sorted(group.get("set", ())))
            words.append(f"{name}: master {group.get('master') or 'none'}, in sync {in_sync or 'none'}")
    return words


def main() -> None:
    parser = argparse.ArgumentParser(prog="harness", description="Look at the cluster and use it, by console.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("state", help="what each node says of itself")
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
