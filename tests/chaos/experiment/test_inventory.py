"""Inventories: every mistake is told with its line, and nodes are spread over the hosts."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from chaos.errors import BadInput
from chaos.experiment import inventory
from chaos.experiment.inventory import Host, place
from chaos.node import NodeSpec


def load(tmp_path: Path, text: str) -> inventory.Inventory:
    path = tmp_path / "inventory.yaml"
    path.write_text(text)
    return inventory.load(path)


def nodes(*names: str) -> list[NodeSpec]:
    return [NodeSpec(name=name, role=name.partition("-")[0], package="reference") for name in names]


def test_an_inventory_is_read_and_kept_as_it_is(tmp_path: Path) -> None:
    text = (
        "hosts:\n  - {host: 10.0.0.1, user: me, key: k}\n  - {host: b, port: 2222, nodes: [broker-0], tunnel: true}\n"
    )
    one, two = load(tmp_path, text)
    assert (one.name, one.user, one.port, one.where) == ("10.0.0.1", "me", 22, "me@10.0.0.1:22")
    assert two.port == 2222 and two.nodes == ("broker-0",) and two.tunnel and two.user
    kept = json.loads(json.dumps([asdict(one), asdict(two)]))
    assert TypeAdapter(inventory.Kept).validate_python(kept) == (one, two)


def test_no_name_of_a_secret_is_public() -> None:
    here: dict[str, Any] = {"host": "a", "name": "x", "user": "me", "jump": "b"}
    known = Host(**here, key="k", known_hosts="/h", sudo_password_env="S", directory="d")
    assert inventory.public((known,)) == (Host(**here, directory="d"),)
    own = Host(host="a", user="me", name="mine", key="own", directory="other")
    assert inventory.public((known,), (own,)) == (Host(host="a", user="me", name="x", key="own", directory="d"),)
    assert inventory.public((known,), (Host(host="a", user="you", key="own"),)) == (Host(**here, directory="d"),)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hosts: []", "inventory.yaml:1: hosts: expected a list with at least one entry"),
        ("{}", "'hosts' is missing"),
        ("hosts:\n  - {port: 22}", "inventory.yaml:2: hosts: 'host' is missing"),
        ("hosts:\n  - {host: a, prot: 22}", "unknown key 'prot'; did you mean 'port'"),
        ("hosts:\n  - {host: a, port: 0}", "port: expected 1 to 65535, got 0"),
        ("hosts:\n  - {host: a, port: true}", "port: expected an integer"),
        ("hosts:\n  - {host: -oProxyCommand=x}", "host: expected a text that does not begin with '-'"),
        ("hosts:\n  - {host: a, jump: 'b c'}", "jump: expected USER@HOST:PORT"),
        ("hosts:\n  - {host: a, tunnel: 1}", "tunnel: expected true or false"),
        ("hosts:\n  - {host: a, nodes: b}", "nodes: expected a list"),
        ("hosts:\n  - {host: a}\n  - {host: a}", "two hosts are called a"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        load(tmp_path, text)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("jump", "where"),
    [("bastion", "me@bastion:22"), ("you@bastion:2022", "you@bastion:2022"), ("", None)],
)
def test_a_jump_host_is_another_host_with_the_same_key(jump: str, where: str | None) -> None:
    found = Host(host="a", name="a", user="me", key="k", jump=jump).jump_host()
    assert (found.where if found else None) == where
    assert found is None or (found.key == "k" and found.jump == "")


def test_each_role_is_spread_over_the_hosts() -> None:
    hosts = tuple(Host(host=name, name=name) for name in "abc")
    names = [f"{role}-{number}" for role in ("controller", "broker") for number in range(3)]
    placed = {name: host.name for name, host in place(nodes("store-0", *names), hosts).items()}
    assert list(placed) == ["store-0", *names]
    for role in ("controller", "broker"):
        assert {placed[f"{role}-{number}"] for number in range(3)} == set("abc")


def test_nodes_go_where_the_hosts_say() -> None:
    hosts = Host(host="a", name="a"), Host(host="b", name="b", nodes=("broker-0", "broker-1"))
    placed = place(nodes("broker-0", "broker-1", "broker-2"), hosts)
    assert [placed[f"broker-{number}"].name for number in range(3)] == ["b", "b", "a"]
    with pytest.raises(BadInput, match="there is no node 'x'; the nodes are broker-0"):
        place(nodes("broker-0"), (Host(host="a", name="a", nodes=("x",)),))
    with pytest.raises(BadInput, match="given to two hosts: a and b"):
        place(nodes("n"), tuple(Host(host=name, name=name, nodes=("n",)) for name in "ab"))
    with pytest.raises(BadInput, match="--on ssh needs hosts"):
        place(nodes("n"), ())
