"""Writes a ``docker-compose.yml``: the servers of an experiment, for experiments by hand.

It keeps to what docker-compose 1.29 and Compose v2 both read: neither ``name`` nor ``version`` at the top. Both name
containers in their own way, so that one is found by its labels. Nodes are those that ``--on docker`` starts, with the
names that Compose's own DNS gives them instead of addresses. Its options stand in its ``environment``, one a line
(:mod:`chaos.shell.environment`).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from chaos.driver import ClusterSpec
from chaos.errors import BadInput
from chaos.machines.docker.engine import IMAGE, NODE
from chaos.machines.docker.node import INSIDE, PORT
from chaos.node import NodeSpec
from chaos.shell.connections import PING
from chaos.shell.environment import ADDRESSES, DISK, EXPOSED, MUTANT, NO_DISK, TOKEN, text_of, variable

#: Of a service: the experiment whose system it belongs to; the node's part in it.
EXPERIMENT, ROLE = "stormproof.compose", "stormproof.role"
#: The first port on this machine's loopback for each role, and how far the next ones are away. A name server has the
#: one that RocketMQ's clients try first.
PORTS: Mapping[str, tuple[int, int]] = {"nameserver": (9876, 1), "broker": (10911, 10), "controller": (19876, 1)}
OTHERS = (19000, 1)
#: What needs no quotes in YAML, and means the same text without them.
_BARE = re.compile(r"0|[1-9]\d*|[A-Za-z/][\w./=:-]*( [\w./=:-]+)*", re.ASCII)
_NO_TEXT = re.compile(r"true|false|yes|no|on|off|null|y|n|.*:( .*)?", re.IGNORECASE)

HEAD = """\
# {name}: its servers in containers, for experiments by hand. To change it, change the experiment or
# the command that made it, and run that again:
#   {command}
#
#   stormproof image                             once: build the image of the nodes
#   docker compose up -d                         or docker-compose up -d
#   docker compose ps                            healthy: the node answers
#   docker compose down -v                       -v: remove the disks, too
#
# To look at the cluster and to use it (--help says more):
#
{by_hand}
#
# To break it: a kill loses what was not synced, and `start` brings the node back; `unpause` lets a paused node go on.
# The last command runs as root, which no node does; broker-0 then gets nothing from broker-1:
#
#   docker compose kill broker-0
#   docker compose pause broker-1
#   docker run --rm --user root --cap-add NET_ADMIN --network container:$(docker compose ps -q broker-0) \\
#       --entrypoint iptables {image} -A INPUT -s broker-1 -j DROP
#
# To set a node up otherwise, change its environment; this lists what there is:
#
#   docker run --rm {image} {package} --help
#
# Clients of RocketMQ's protocol find the cluster through its name server at {nameserver}.
"""
#: What a cluster with controllers is asked by hand, and one with compute and storage apart: it begins without topics.
SWITCHED = ("state", "send {topic} 0 hello", "read {topic} 0 0", "switch broker-1")
APART = ("state", "topic {topic} 4", "send {topic} 0 hello", "read {topic} 0 0")
NODES = """
# Every node: its image, and what it may do.
x-node: &node
  image: {image}
  networks: [cluster]
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  healthcheck:  # the node answers a ping
    test:
      - CMD
      - timeout
      - "1"
      - bash
      - -c
      - |
        exec 3<>/dev/tcp/127.0.0.1/{port}
        echo '{ping}' >&3
        read -rn 1 -u 3 answer
        [ "$$answer" = + ]
    interval: 3s
    timeout: 2s
    retries: 3
    start_period: 5s

services:
"""
SERVICE = """\
  {name}:
    <<: *node
    command: [{package}, {role}, {name}]
    environment:{environment}
    labels: {{{labels}}}
    ports: ["{published}:{port}"]
"""
VOLUME = """\
    volumes: ["{name}:{disk}"]
"""
HARNESS = """\
  harness:
    <<: *node
    profiles: [harness]
    entrypoint: [python3, -m, reference.console]
    command: [state]
    environment: *cluster
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
    """Return the file for this cluster; ``command`` is what makes it, ``name`` the experiment's, ``topic`` one to be
    used.

    Raises :class:`BadInput` for an option that no environment variable can hold, and for a node that needs a library of
    others, which the image lacks.
    """
    if (outside := next((node for node in cluster.nodes if node.outside), None)) is not None:
        raise BadInput(f"{outside.name}: the image of the nodes has no {outside.outside}, which this node needs")
    exposed = dict(_exposed(cluster.nodes))
    nameservers = [exposed[node.name] for node in cluster.nodes if node.role == "nameserver"]
    own, disks = _labels({EXPERIMENT: name}), [node.name for node in cluster.nodes if node.disk]
    options = {node.name: _options(node) for node in cluster.nodes}
    shared = dict(_shared(cluster.nodes, options))
    parts = [
        HEAD.format(
            name=name,
            command=" ".join(command.splitlines()),
            by_hand=_by_hand(cluster.nodes, " ".join(shlex.quote(topic).splitlines())),
            image=IMAGE,
            package=cluster.nodes[0].package,
            nameserver=", ".join(nameservers) or "none",
        ),
        *_environments(exposed, shared),
        NODES.format(image=IMAGE, port=PORT, ping=PING.decode()),
        *(_service(name, node, exposed[node.name], options[node.name], shared) for node in cluster.nodes),
        HARNESS.format(labels=own),
        TAIL.format(labels=own, volumes="\n".join(f"  {name}: {{labels: {{{own}}}}}" for name in disks)),
    ]
    return "".join(parts)


def _by_hand(nodes: Sequence[NodeSpec], topic: str) -> str:
    """Return lines with what to ask the cluster."""
    commands = SWITCHED if any(node.role == "controller" for node in nodes) else APART
    return "\n".join(f"#   docker compose run --rm harness {one.format(topic=topic)}" for one in commands)


def _exposed(nodes: Sequence[NodeSpec]) -> Iterator[tuple[str, str]]:
    """Yield where each node is reached from this machine."""
    counts: dict[tuple[int, int], int] = {}
    for node in nodes:
        first, step = ports = PORTS.get(node.role, OTHERS)
        number = counts.get(ports, 0)
        counts[ports] = number + 1
        yield node.name, f"127.0.0.1:{first + number * step}"


def _options(node: NodeSpec) -> dict[str, str]:
    """Return a node's own variables."""
    found = ({MUTANT: node.mutant} if node.mutant else {}) | ({} if node.disk else {DISK: NO_DISK})
    for option, value in node.options.items():
        try:
            found[variable(option)] = text_of(value)
        except ValueError as error:
            raise BadInput(f"{node.name}: a docker-compose file can't hold its option {option}: {error}") from error
    return found


def _shared(
    nodes: Sequence[NodeSpec], options: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Return, by role, the options that all of its nodes share; nothing for a role that has one node or no options."""
    for role in dict.fromkeys(node.role for node in nodes):
        first, *others = (options[node.name] for node in nodes if node.role == role)
        same = {name: text for name, text in first.items() if all(other.get(name) == text for other in others)}
        if others and same:
            yield role, same


def _environments(exposed: Mapping[str, str], shared: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield the parts that services refer to."""
    yield "\n# Of all nodes: where they find each other, and where clients on this machine find them.\n"
    yield "x-cluster: &cluster\n"
    yield f"  {ADDRESSES}: >-\n" + "".join(f"    {_plain(f'{name}={name}:{PORT}')}\n" for name in exposed)
    yield f"  {EXPOSED}: >-\n" + "".join(f"    {_plain(f'{name}={where}')}\n" for name, where in exposed.items())
    yield f"  {DISK}: {INSIDE}/disk\n"
    yield f"  {TOKEN}: ${{{TOKEN}:-}}\n"
    for role, same in shared.items():
        yield f"\n# Of all nodes with the role {role}.\nx-{role}s: &{role}s\n  <<: *cluster\n"
        yield "".join(f"  {line}\n" for line in _lines(same))


def _service(
    name: str, node: NodeSpec, published: str, options: Mapping[str, str], shared: Mapping[str, Mapping[str, str]]
) -> str:
    same = shared.get(node.role, {})
    anchor = f"*{node.role}s" if same else "*cluster"
    own = _lines({option: text for option, text in options.items() if option not in same})
    service = SERVICE.format(
        name=node.name,
        package=node.package,
        role=node.role,
        environment="".join(f"\n      {line}" for line in (f"<<: {anchor}", *own)) if own else f" {anchor}",
        labels=_labels({EXPERIMENT: name, NODE: node.name, ROLE: node.role}),
        published=published,
        port=PORT,
    )
    return service + (VOLUME.format(name=node.name, disk=f"{INSIDE}/disk") if node.disk else "")


def _lines(variables: Mapping[str, str]) -> list[str]:
    return [f"{name}: {_scalar(text)}" for name, text in variables.items()]


def _labels(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}: {_scalar(value)}" for key, value in labels.items())


def _scalar(text: str) -> str:
    """Return a text in YAML, without quotes where it needs none."""
    bare = _BARE.fullmatch(text) and not _NO_TEXT.fullmatch(text)
    return text if bare else _plain(json.dumps(text))


def _plain(text: str) -> str:
    """Compose takes a dollar sign for the beginning of a variable."""
    return text.replace("$", "$$")
