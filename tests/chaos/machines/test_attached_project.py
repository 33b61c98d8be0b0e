"""Which containers a run attaches to, and what others do to them, as an engine tells it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import BadInput, DeploymentError
from chaos.experiment.attached import Attach
from chaos.machines.attach import left
from chaos.machines.attach.ledger import Ledger
from chaos.machines.attach.left import ProjectLeft
from chaos.machines.attach.machine import AttachedMachine
from chaos.machines.attach.project import Found, find
from chaos.machines.lifecycle.crashes import Crashes
from chaos.program import Program

PROGRAMS = {name: Program(argv=["queue"], ports={"queue": 0}) for name in ("queue-0", "queue-1")}
NODES = {"queue-0": "primary", "queue-1": "backup"}


def container(service: str, number: int = 1, **more: Any) -> dict[str, Any]:
    labels = {
        "com.docker.compose.project": "shop",
        "com.docker.compose.service": service,
        "com.docker.compose.container-number": str(number),
        "com.docker.compose.oneoff": "False",
    }
    state = {"Running": True, "Paused": False, "Status": "running", "StartedAt": "2026-01-01T00:00:00", "Pid": 7}
    network = {"IPAddress": f"172.18.0.{len(service)}", "GlobalIPv6Address": more.get("ipv6", "")}
    return {
        "Id": f"{service}{number}".encode().hex().zfill(64),
        "Name": f"/shop-{service}-{number}",
        "Labels": labels,
        "Config": {"Labels": labels, "ExposedPorts": more.get("exposed", {"7000/tcp": {}, "9/udp": {}})},
        "State": {**state, "ExitCode": 0, **more.get("state", {})},
        "HostConfig": {"NetworkMode": "shop_default", **more.get("host", {})},
        "NetworkSettings": {"Networks": more.get("networks", {"shop_default": network})},
    }


class Engine:
    """What of the engine's client is used here; ``kills``: its events of that kind."""

    def __init__(self, *containers: dict[str, Any]) -> None:
        self.known = {one["Id"]: one for one in containers}
        self.kills: list[dict[str, Any]] = []
        self.api = self

    def containers(self, **asked: object) -> list[dict[str, Any]]:
        return list(self.known.values())

    def inspect_container(self, container: str) -> dict[str, Any]:
        if container not in self.known:
            from docker.errors import NotFound

            raise NotFound("no such container")
        return self.known[container]

    def events(self, **asked: object) -> list[dict[str, Any]]:
        return self.kills

    def logs(self, container: str, **asked: object) -> bytes:
        return b"segmentation fault"


def found(engine: Engine, *, cuts: bool = True, **attach: Any) -> dict[str, Found]:
    given = {"compose": "shop", "nodes": NODES, **attach}
    return find(engine, Attach(**given), PROGRAMS, cuts=cuts)  # type: ignore[arg-type]


def test_nodes_are_found_by_service_number_or_name() -> None:
    two = {"a_net": {"IPAddress": "10.0.0.9"}, "shop_default": {"IPAddress": "172.18.0.7"}}
    engine = Engine(container("primary", networks=two), container("backup"), container("backup", 2))
    for name in ("backup-2", "shop-backup-2"):
        these = found(engine, nodes={"queue-0": "primary", "queue-1": name})
        assert [one.name for one in these.values()] == ["shop-primary-1", "shop-backup-2"]
        assert these["queue-0"].ports == {"queue": 7000}, "the only one that its image exposes"
    network = these["queue-0"].network(engine.inspect_container(these["queue-0"].container))
    assert network is not None and network.ip == "172.18.0.7", "in the network that all are in"
    assert network.addresses == ("10.0.0.9", "172.18.0.7"), "it is cut off at all of them"


@pytest.mark.parametrize(
    ("containers", "attach", "said"),
    [
        ((), {"compose": ""}, "--on attach needs the cluster that it attaches to: say `attach: {compose: PROJECT}`"),
        ((), {}, "there is no Compose project 'shop' on this machine; no project is here: start it first"),
        (
            (container("primary"),),
            {"compose": "shap"},
            "no Compose project 'shap' on this machine; did you mean 'shop'?",
        ),
        ((container("primary"),), {"nodes": {"queue-9": "x"}}, "there is no node 'queue-9'; did you mean 'queue-"),
        ((container("primary"),), {"ports": {"queu": 1}}, "there is no port 'queu'; did you mean 'queue'?"),
        (
            (container("primary"), container("backup")),
            {"nodes": {**NODES, "queue-0": "primry"}},
            "did you mean 'primary'?",
        ),
        (
            (container("primary"), container("backup")),
            {"nodes": {}},
            "say which service it is: `nodes: {queue-0: SERVICE}`",
        ),
        (
            (container("primary"), container("backup"), container("backup", 2)),
            {},
            "service 'backup' (node queue-1) has several containers; say one of backup-1, backup-2",
        ),
        (
            (container("primary"),),
            {"nodes": dict.fromkeys(NODES, "primary")},
            "queue-0 and queue-1 are the same container, shop-primary-1",
        ),
        ((container("primary", exposed={}), container("backup")), {}, "which number has port 'queue' of node queue-0?"),
        (
            (container("primary", state={"Running": False, "Status": "exited"}), container("backup")),
            {},
            "node queue-0, container shop-primary-1: it does not run (exited): start it first",
        ),
        ((container("primary", state={"Paused": True}), container("backup")), {}, "it is paused: let it go on first"),
        ((container("primary", host={"AutoRemove": True}), container("backup")), {}, "a kill could not be undone"),
        ((container("primary", networks={"host": {}}), container("backup")), {}, "it has no network of its own"),
        ((container("primary", ipv6="fd00::2"), container("backup")), {}, "at which links can't be cut"),
    ],
)
def test_what_cannot_be_attached_is_said_before_anything_is_touched(
    containers: tuple[dict[str, Any], ...], attach: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        found(Engine(*containers), **attach)
    assert said in str(caught.value)


def machine(engine: Engine, directory: Path) -> AttachedMachine:
    one = found(engine)["queue-1"]
    ledger = Ledger(directory, ProjectLeft(harness="1:1", project="shop", containers={"queue-1": "a" * 64}))
    return AttachedMachine(engine, one, ledger, {})  # type: ignore[arg-type]


def stopped(state: dict[str, Any], engine: Engine) -> None:
    state.update(Running=False, ExitCode=0)
    engine.kills.append({"Action": "kill"})


def crashed(state: dict[str, Any], engine: Engine) -> None:
    state.update(Running=False, ExitCode=139)


@pytest.mark.parametrize(
    ("happens", "losses", "crashes"),
    [
        (stopped, 1, 0),
        (crashed, 0, 1),
        (lambda state, engine: state.update(Paused=True), 1, 0),
        (lambda state, engine: state.update(StartedAt="2026-01-01T00:00:09"), 1, 0),
        (lambda state, engine: engine.known.clear(), 1, 0),
        (lambda state, engine: None, 0, 0),
    ],
)
def test_what_others_do_is_no_crash(
    tmp_path: Path, happens: Callable[[dict[str, Any], Engine], object], losses: int, crashes: int
) -> None:
    backup = container("backup")
    engine = Engine(container("primary"), backup)
    it, noted = machine(engine, tmp_path), Crashes(lambda node, incarnation: False)
    assert it.lives(["queue-1"])["queue-1"].incarnation == 1
    happens(backup["State"], engine)
    for _ in range(2):
        noted.note(it, ["queue-1"])
    assert (len(it.losses), len(noted.noted)) == (losses, crashes)


def test_what_is_held_is_on_disk_before(tmp_path: Path) -> None:
    given = ProjectLeft(harness="1:1", project="shop", containers={"queue-1": "a" * 64})
    ledger = Ledger(tmp_path, given)
    ledger.hold("queue-1")
    read = ProjectLeft.read(tmp_path)
    assert read is not None and read.held == ("queue-1",)
    ledger.close()
    assert ProjectLeft.read(tmp_path) is not None, "what is still held is for healing"
    ledger.let_go("queue-1")
    ledger.close()
    assert ProjectLeft.read(tmp_path) is None and left.heal(tmp_path) == []


@pytest.mark.parametrize("text", ["{", "[]", '{"harness": 1}', '{"containers": {"a": "--evil"}}'])
def test_a_file_that_no_mark_vouches_for_heals_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "attached.json").write_text(text)
    with pytest.raises(DeploymentError, match="nothing says that this user made it here: no mark of it is in"):
        left.heal(tmp_path)
