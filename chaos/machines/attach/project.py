"""Finds the containers of a Docker Compose project that runs already, by the labels that every version gives them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from chaos.errors import BadInput
from chaos.experiment.attached import Attach
from chaos.machines.docker.engine import engine_errors
from chaos.machines.machine import Address
from chaos.plugins import nearest
from chaos.program import Program

if TYPE_CHECKING:
    from docker import DockerClient

PROJECT = "com.docker.compose.project"
SERVICE = "com.docker.compose.service"
NUMBER = "com.docker.compose.container-number"
#: Of containers that `compose run` has made for one command.
ONE_OFF = "com.docker.compose.oneoff"
_TCP = "/tcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Where a container is found: at ``ip`` by this machine and its peers, and at all ``addresses`` by the packet
    filter."""

    ip: str
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The container of a node, with the numbers of its ports. ``common``: the network that all nodes are in, if there
    is one."""

    node: str
    service: str
    container: str
    name: str
    ports: Mapping[str, int]
    common: str = ""

    def network(self, shown: Mapping[str, Any]) -> Network | None:
        """Return where it is now, from what the engine says of the container; None for one without an address."""
        given = shown["NetworkSettings"]["Networks"] or {}
        ips = {name: str(one["IPAddress"]) for name, one in sorted(given.items()) if one.get("IPAddress")}
        if not ips:
            return None
        return Network(ip=ips.get(self.common) or next(iter(ips.values())), addresses=tuple(ips.values()))

    def reached(self, ip: str) -> dict[str, Address]:
        return {name: (ip, number) for name, number in self.ports.items()}


def find(client: DockerClient, attach: Attach, programs: Mapping[str, Program], *, cuts: bool) -> dict[str, Found]:
    """Return the container of each node (by name). ``cuts``: links between nodes will be cut. Raises :class:`BadInput`
    with everything that keeps the run from attaching."""
    attach.check(programs)
    containers = _of_project(client, attach.compose)
    found: dict[str, Found] = {}
    problems: list[str] = []
    networks: list[set[str]] = []
    for node, program in programs.items():
        try:
            one = _container(node, attach, containers)
            problems += (f"node {node}, container {one['Name'].lstrip('/')}: {why}" for why in _unfit(one, cuts=cuts))
            networks.append({name for name, net in one["NetworkSettings"]["Networks"].items() if net.get("IPAddress")})
            found[node] = Found(
                node=node,
                service=attach.service(node),
                container=str(one["Id"]),
                name=str(one["Name"]).lstrip("/"),
                ports=_ports(node, program, attach, one),
            )
        except BadInput as error:
            problems += error.problems
    problems += _shared(found.values())
    if problems:
        raise BadInput(*problems)
    common = next(iter(sorted(set.intersection(*networks))), "") if networks else ""
    return {node: replace(one, common=common) for node, one in found.items()}


def _of_project(client: DockerClient, project: str) -> list[dict[str, Any]]:
    """Return what the engine says of each container of the project. Raises :class:`BadInput` when there is none."""
    with engine_errors():
        listed = client.api.containers(all=True, filters={"label": PROJECT})
        known = {str(one["Labels"][PROJECT]) for one in listed}
        if project not in known:
            hint = nearest(project, known) or "no project is here: start it first (`docker compose up -d`)"
            raise BadInput(f"attach, compose: there is no Compose project {project!r} on this machine; {hint}")
        ours = [one for one in listed if one["Labels"][PROJECT] == project]
        return [
            client.api.inspect_container(one["Id"])
            for one in ours
            if one["Labels"].get(ONE_OFF, "") not in ("True", "true")
        ]


def _container(node: str, attach: Attach, containers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the container of a node. Raises :class:`BadInput`."""
    wanted = attach.service(node)
    named: dict[str, list[dict[str, Any]]] = {}
    for one in containers:
        labels = one["Config"]["Labels"]
        service = str(labels.get(SERVICE, ""))
        for name in {service, f"{service}-{labels.get(NUMBER, 1)}", str(one["Name"]).lstrip("/")}:
            named.setdefault(name, []).append(one)
    if len(named.get(wanted, ())) > 1:
        words = ", ".join(sorted(f"{wanted}-{one['Config']['Labels'].get(NUMBER, 1)}" for one in named[wanted]))
        raise BadInput(f"attach, nodes: service {wanted!r} (node {node}) has several containers; say one of {words}")
    if wanted not in named:
        services = {str(one["Config"]["Labels"].get(SERVICE, "")) for one in containers}
        hint = nearest(wanted, services)
        fix = f"say which service it is: `nodes: {{{node}: SERVICE}}`" if node not in attach.nodes else "fix its name"
        raise BadInput(
            f"attach, nodes: project {attach.compose} has no service {wanted!r} for node {node}; {hint}; {fix}"
        )
    return named[wanted][0]


def _unfit(one: Mapping[str, Any], *, cuts: bool) -> Iterator[str]:
    state, host = one["State"], one["HostConfig"]
    if not state["Running"]:
        yield f"it does not run ({state['Status']}): start it first, a run hurts only what is well"
    elif state["Paused"]:
        yield "it is paused: let it go on first (`docker compose unpause`)"
    if host.get("AutoRemove"):
        yield "it is removed when it ends (--rm), so a kill could not be undone: start it without that"
    given = one["NetworkSettings"]["Networks"] or {}
    if state["Running"] and not any(net.get("IPAddress") for net in given.values()):
        yield f"it has no network of its own (network_mode {host.get('NetworkMode')}): give it one of the project's"
    if cuts and any(net.get("GlobalIPv6Address") for net in given.values()):
        yield "it has an IPv6 address, at which links can't be cut: take `enable_ipv6` out, or the faults on links"


def _ports(node: str, program: Program, attach: Attach, one: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of each port of a node. Raises :class:`BadInput` for one whose number is unknown."""
    exposed = sorted(
        int(port.removesuffix(_TCP)) for port in one["Config"].get("ExposedPorts") or {} if port.endswith(_TCP)
    )
    only = exposed[0] if len(exposed) == 1 and len(program.ports) == 1 else 0
    found, missing = {}, []
    for name, number in program.ports.items():
        given = attach.ports.get(f"{node}.{name}") or attach.ports.get(name) or number or only
        found[name] = given
        if not given:
            missing.append(name)
    if missing:
        ports = ", ".join(map(str, exposed)) or "no port"
        raise BadInput(
            *(
                f"attach, ports: which number has port {name!r} of node {node}? Its image exposes {ports}; say"
                f" `ports: {{{name}: NUMBER}}`"
                for name in missing
            )
        )
    return found


def _shared(found: Iterable[Found]) -> Iterator[str]:
    holders: dict[str, list[str]] = {}
    for one in found:
        holders.setdefault(one.name, []).append(one.node)
    for name, nodes in holders.items():
        if len(nodes) > 1:
            yield f"attach, nodes: {' and '.join(nodes)} are the same container, {name}; each node needs one of its own"
