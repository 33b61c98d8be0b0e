"""The docker-compose file: current, of the subset that both Compose versions read, and a cluster that one can use."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from chaos.driver import promising
from chaos.experiment.reader import load
from chaos.node import NodeSpec
from chaos.shell.environment import launch_in
from chaos.shell.launch import Launch
from reference.options import OPTIONS
from reference.split.options import OPTIONS as SPLIT_OPTIONS
from stormproof import cli
from stormproof.shipped import experiments, of_reference
from tests.stormproof.test_up import send_and_read_back

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
HEALTHY_S = 120
COMPOSES = {"v1": ["docker-compose"], "v2": ["docker", "compose"]}
SPLIT = experiments(ROOT)["split/quickstart"]
#: What was sent by hand.
WORDS = "grüße; $HOME 'x'"


def written() -> dict[str, Any]:
    content: dict[str, Any] = YAML(typ="safe", pure=True).load(FILE.read_text("utf-8"))
    return content


def test_the_committed_file_is_what_the_command_prints(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.chdir(ROOT)
    assert cli._run(["compose", "examples/start/quickstart.yaml"]) == 0
    assert capsys.readouterr().out == FILE.read_text("utf-8"), "make it anew: stormproof compose … > docker-compose.yml"


def test_it_keeps_to_what_both_versions_read_and_gives_no_power_away() -> None:
    content = written()
    assert {key for key in content if not key.startswith("x-")} == {"services", "networks", "volumes"}
    services = content["services"]
    roles = [service["labels"].get("stormproof.role") for service in services.values()]
    assert {role: roles.count(role) for role in roles} == {
        "objectstore": 1,
        "nameserver": 1,
        "controller": 3,
        "broker": 3,
        None: 1,  # the harness
    }
    for service in services.values():
        assert "privileged" not in service and "user" not in service and "cap_add" not in service
        assert service["cap_drop"] == ["ALL"] and service["read_only"] is True
        assert all(re.fullmatch(r"127\.0\.0\.1:\d+:10911", port) for port in service.get("ports", ()))
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert len(ports) == len(set(ports)) == 8


def launches(content: dict[str, Any]) -> dict[str, Launch]:
    """What each node of a file makes of its command and environment, after Compose has read them."""
    found = {}
    for name, service in content["services"].items():
        if name != "harness":
            package, *words = service["command"]
            environ = {key: str(value).replace("$$", "$") for key, value in service["environment"].items()}
            options = OPTIONS if package == "reference" else SPLIT_OPTIONS
            found[name] = launch_in(package, options, words, environ)
    return found


def cluster_of(experiment: Path, mutant: str = "") -> tuple[NodeSpec, ...]:
    """The nodes that other deployments would start."""
    read = load(experiment, deployment="docker", mutant=mutant)
    return tuple(promising(read.system.build(), read.profile).cluster(mutant).nodes)


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert cli._run(["compose", *words]) == 0
    content: dict[str, Any] = YAML(typ="safe", pure=True).load(capsys.readouterr().out)
    return content


def test_every_node_is_told_what_it_would_be_told_elsewhere() -> None:
    for name, launch in launches(written()).items():
        assert launch.spec.name == name and launch.listens == ("0.0.0.0", 10911)
        assert launch.address_of("broker-0") == ("broker-0", 10911) and launch.exposed["broker-1"] == "127.0.0.1:10921"
        assert set(launch.exposed) == set(launch.nodes) and launch.disk == "/stormproof/disk"


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(path, marks=pytest.mark.full if number % 4 else (), id=path.stem)
        for number, path in enumerate(of_reference().values())
    ]
    + [pytest.param(SPLIT, id="split")],
)
def test_each_example_has_such_a_file(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content, nodes = printed(capsys, str(example)), cluster_of(example)
    assert [launch.spec for launch in launches(content).values()] == list(nodes)
    names = [node.name for node in nodes]
    assert list(content["services"]) == [*names, "harness"]
    assert list(content["volumes"]) == [node.name for node in nodes if node.disk]
    mounted = [name for name, service in content["services"].items() if "volumes" in service]
    assert mounted == list(content["volumes"])


def test_a_mutant_is_told_to_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    example = ROOT / "examples" / "start" / "quickstart.yaml"
    content = printed(capsys, str(example), "--bug", "ack-before-fsync")
    assert [launch.spec for launch in launches(content).values()] == list(cluster_of(example, "ack-before-fsync"))


def test_no_line_is_long_and_none_holds_json_but_the_ping() -> None:
    for line in FILE.read_text("utf-8").splitlines():
        assert len(line) <= 120
        assert '{"' not in line or line.strip() == """echo '{"ping":true}' >&3"""


@pytest.mark.parametrize("topic", ["a$HOME", "a b=c 'd'", "true", "010", "1e3", "12:30", "a: b", "#a", "a #b", "é\n"])
def test_any_topic_gets_through_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str], topic: str) -> None:
    file = tmp_path / "odd.yaml"
    options = f"broker_options: {{group: {json.dumps(topic)}}}"
    system = f"{{reference: {{topic: {json.dumps(topic)}, {options}}}}}"
    file.write_text(f"system: {system}\nduration: 5s\nworkloads: [queue]\n")
    told = launches(printed(capsys, str(file)))["broker-0"].spec.options
    assert told["topics"] == {topic: 4} and told["group"] == topic


def test_a_topic_is_no_command_for_who_copies_a_line_and_no_line_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, topic = tmp_path / "odd.yaml", "a;$(touch pwned)\nservices: {}\n'"
    file.write_text(f"system: {{reference: {{topic: {json.dumps(topic)}}}}}\nduration: 5s\nworkloads: [queue]\n")
    assert cli._run(["compose", str(file)]) == 0
    text = capsys.readouterr().out
    (line,) = (line for line in text.splitlines() if " harness send " in line)
    assert shlex.split(line.partition("send ")[2])[0] == " ".join(topic.splitlines())
    assert "broker-0" in YAML(typ="safe", pure=True).load(text)["services"]


@contextmanager
def up(version: str, file: Path) -> Iterator[list[str]]:
    """The command of one version, with a cluster that is up; it is taken down at the end."""
    command = COMPOSES[version]
    if shutil.which(command[0]) is None or subprocess.run([*command, "version"], capture_output=True).returncode:
        pytest.skip(f"`{' '.join(command)}` is not there (CONTRIBUTING.md tells where it is looked for)")
    for port in (10911, 9876, 19876):
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"port {port}, which the file publishes, is taken")
    words = [*command, "-p", f"stormproof-{os.getpid()}", "-f", str(file)]
    try:
        subprocess.run([*words, "up", "-d"], check=True, capture_output=True, timeout=120)
        yield words
    finally:
        subprocess.run([*words, "down", "-v"], check=True, capture_output=True, timeout=120)
    own = f"label=com.docker.compose.project=stormproof-{os.getpid()}"
    for kind in ("container", "network", "volume"):
        left = subprocess.run(["docker", kind, "ls", "-q", "--filter", own], capture_output=True, text=True, check=True)
        assert left.stdout == ""


@pytest.fixture(params=COMPOSES)
def compose(request: pytest.FixtureRequest, engine: Any) -> Iterator[list[str]]:
    with up(request.param, FILE) as words:
        yield words


def by_hand(compose: list[str], *words: str) -> str:
    done = subprocess.run(
        [*compose, "run", "--rm", "-T", "harness", *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_until_healthy(compose: list[str], engine: Any, nodes: int) -> float:
    """Return until when to wait for what comes next."""
    containers = engine.containers.list(filters={"label": [f"com.docker.compose.project={compose[-3]}"]})
    assert len(containers) == nodes
    deadline_s = time.monotonic() + HEALTHY_S
    while not all(container.attrs["State"]["Health"]["Status"] == "healthy" for container in containers):
        assert time.monotonic() < deadline_s, [container.logs() for container in containers]
        time.sleep(0.2)
        for container in containers:
            container.reload()
    return deadline_s


@pytest.mark.docker
def test_up_produce_consume_switch_kill_down(compose: list[str], engine: Any) -> None:
    deadline_s = wait_until_healthy(compose, engine, 8)
    while "in sync broker-0, broker-1, broker-2" not in (state := by_hand(compose, "state")):
        assert time.monotonic() < deadline_s, state
    assert "at offset 0" in by_hand(compose, "send", "storm", "0", WORDS)
    master = re.search(r"master (broker-\d)", state)[1]
    other = next(name for name in ("broker-0", "broker-1") if name != master)
    assert f"{other} is the master of epoch 2" in by_hand(compose, "switch", other)
    assert by_hand(compose, "read", "storm", "0", "0") == f"0 {WORDS}\n"
    for words in (["kill", master], ["start", master]):
        subprocess.run([*compose, *words], check=True, capture_output=True, timeout=60)
    while f"{master:<14} slave; epoch 2" not in (state := by_hand(compose, "state")):
        assert time.monotonic() < deadline_s + 30, state
    send_and_read_back({name: f"127.0.0.1:{port}" for name, port in published().items()})


@pytest.mark.full
@pytest.mark.docker
@pytest.mark.parametrize("version", COMPOSES)
def test_compute_and_storage_apart_are_used_by_hand(
    version: str, engine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "docker-compose.yml"
    assert cli._run(["compose", str(SPLIT)]) == 0
    file.write_text(capsys.readouterr().out)
    with up(version, file) as compose:
        deadline_s = wait_until_healthy(compose, engine, 10)
        while (state := by_hand(compose, "state")).count(": open, epoch ") < 2:
            assert time.monotonic() < deadline_s, state
        assert "made storm with 4 queues" in by_hand(compose, "topic", "storm", "4")
        for queue in "0123":
            assert "at offset 0" in by_hand(compose, "send", "storm", queue, f"{WORDS}{queue}")
        owner = re.search(r"slice-0: (broker-\d)", state)[1]
        subprocess.run([*compose, "kill", owner], check=True, capture_output=True, timeout=60)
        while f"slice-0: {owner}" in (state := by_hand(compose, "state")):
            assert time.monotonic() < deadline_s + 30, state
        assert [by_hand(compose, "read", "storm", queue, "0") for queue in "0123"] == [
            f"0 {WORDS}{queue}\n" for queue in "0123"
        ]


def published() -> dict[str, str]:
    services = written()["services"]
    return {name: service["ports"][0].split(":")[1] for name, service in services.items() if name != "harness"}
