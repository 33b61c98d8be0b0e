"""Writes a ``docker-compose.yml``: the servers of an experiment, for experiments by hand.

It keeps to what docker-compose 1.29 and Compose v2 both read: neither ``name`` nor ``version`` at the top. Both name
containers in their own way, so whoever looks for one goes by the labels. Nodes are those that ``--on docker`` starts,
with the names that Compose's own DNS gives them instead of addresses.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from chaos.driver import ClusterSpec
from chaos.machines.docker.engine import IMAGE, NODE
from chaos.machines.docker.node import INSIDE, PORT
from chaos.node import NodeSpec
from chaos.shell.connections import PING

#: Of a service: the experiment whose system it belongs to; the node's part in it.
EXPERIMENT, ROLE = "stormproof.compose", "stormproof.role"
#: The first port on this machine's loopback for each role, and how far the next ones are away. A name server has the
#: one that RocketMQ's clients try first.
PORTS: Mapping[str, tuple[int, int]] = {"nameserver": (9876, 1), "broker": (10911, 10), "controller": (19876, 1)}
OTHERS = (19000, 1)
#: What shows that a node does its work: it answers a ping. Its machine alone would take a call, too.
_PING = f"exec 3<>/dev/tcp/127.0.0.1/{PORT} && echo '{PING.decode()}' >&3"
_HEALTHY = _PING + ' && read -rn 1 -u 3 said && [ "$said" = + ]'

HEAD = """\
# {name}: its servers in containers, for experiments by hand. Made by `{command}`;
# change that experiment, or the command, and make this file anew.
#
#   stormproof image                             once: build the image of the nodes
#   docker compose up -d                         or docker-compose up -d
#   docker compose ps                            healthy: the node answers
#   docker compose down -v                       -v: with the disks
#
# To look at it and to use it (`state`, `send`, `read`, `switch`; --help tells more):
#
#   docker compose run --rm harness send {topic} 0 hello
#   docker compose run --rm harness read {topic} 0 0
#   docker compose run --rm harness switch broker-1
#
# To break it: a kill loses what was not synced, `start` brings the node back; a paused node goes on with `unpause`; and
# the last one, by a root that no node has, keeps everything from broker-0 that broker-1 sends:
#
#   docker compose kill broker-0
#   docker compose pause broker-1
#   docker run --rm --user root --cap-add NET_ADMIN --network container:$(docker compose ps -q broker-0) \\
#       --entrypoint iptables {image} -A INPUT -s broker-1 -j DROP
#
# Clients of RocketMQ's protocol find the cluster through its name server at {nameserver}.
"""
BODY = """\
x-cluster: &cluster >-
{cluster}

x-node: &node
  image: {image}
  networks: [cluster]
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  healthcheck:
    test: [CMD, timeout, "1", bash, -c, {healthy}]
    interval: 3s
    timeout: 2s
    retries: 3
    start_period: 5s

services:
"""
SERVICE = """\
  {name}:
    <<: *node
    command: [{package}, *cluster, {name}]
    labels: {{{labels}}}
    ports: ["{published}:{port}"]
    volumes: ["{name}:{inside}/disk"]
"""
HARNESS = """\
  harness:
    <<: *node
    profiles: [harness]
    entrypoint: [python3, -m, reference.console, *cluster]
    command: [state]
    labels: {{{labels}}}
    healthcheck: {{disable: true}}
"""
TAIL = """\

networks:
  cluster:
    labels: {{{labels}}}

volumes:
{volumes}
"""


def compose(name: str, cluster: ClusterSpec, topic: str, command: str) -> str:
    """The file for this cluster; ``command`` is what makes it, ``name`` the experiment's, ``topic`` one to be used."""
    exposed = dict(_exposed(cluster.nodes))
    nameservers = [exposed[node.name] for node in cluster.nodes if node.role == "nameserver"]
    own = _labels({EXPERIMENT: name})
    parts = [
        HEAD.format(
            name=name,
            command=" ".join(command.splitlines()),
            topic=" ".join(shlex.quote(topic).splitlines()),
            image=IMAGE,
            nameserver=", ".join(nameservers) or "none",
        ),
        BODY.format(image=IMAGE, healthy=_scalar(_HEALTHY), cluster=_indented(_told(cluster, exposed))),
        *(_service(name, node, exposed[node.name]) for node in cluster.nodes),
        HARNESS.format(labels=own),
        TAIL.format(labels=own, volumes="\n".join(f"  {node.name}: {{labels: {{{own}}}}}" for node in cluster.nodes)),
    ]
    return "".join(parts)


def _service(name: str, node: NodeSpec, published: str) -> str:
    labels = _labels({EXPERIMENT: name, NODE: node.name, ROLE: node.role})
    return SERVICE.format(
        name=node.name, package=node.package, labels=labels, published=published, port=PORT, inside=INSIDE
    )


def _exposed(nodes: Sequence[NodeSpec]) -> Iterator[tuple[str, str]]:
    """Where each node is reached from this machine."""
    counts: dict[tuple[int, int], int] = {}
    for node in nodes:
        first, step = ports = PORTS.get(node.role, OTHERS)
        number = counts.get(ports, 0)
        counts[ports] = number + 1
        yield node.name, f"127.0.0.1:{first + number * step}"


def _told(cluster: ClusterSpec, exposed: Mapping[str, str]) -> Iterator[str]:
    """What every node is told, as lines of JSON: a node's line is its own spec."""
    told = {
        "seed": 0,
        "disk": f"{INSIDE}/disk",
        "trace": "/dev/null",
        "addresses": {node.name: f"{node.name}:{PORT}" for node in cluster.nodes},
        "exposed": exposed,
    }
    specs = [json.dumps(asdict(node)) for node in cluster.nodes]
    yield "{" + ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in told.items()) + ","
    yield '"nodes": ['
    yield from (f"{spec}," for spec in specs[:-1])
    yield specs[-1] + "]}"


def _indented(lines: Iterator[str]) -> str:
    return "\n".join(f"  {_plain(line)}" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {_scalar(value)}" for key, value in labels.items())


def _scalar(text: str) -> str:
    return _plain(json.dumps(text))


def _plain(text: str) -> str:
    """Compose takes a dollar sign for the beginning of a variable."""
    return text.replace("$", "$$")
