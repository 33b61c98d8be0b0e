"""How running nodes learn of one that joins them."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.node import NodeSpec
from chaos.shell.launch import Launch
from chaos.shell.membership import MembershipFile, content
from chaos.shell.node_files import put

SPEC = NodeSpec(name="a", role="toy", package="toys")


def launch(**others: object) -> Launch:
    told = {"spec": SPEC, "nodes": ("a", "b"), "incarnation": 1, "seed": 1, "disk": "", "trace": "", **others}
    return Launch(**told)  # type: ignore[arg-type]


def test_each_change_of_the_file_is_news_once(tmp_path: Path) -> None:
    path = tmp_path / "nodes" / "a.membership"
    it, other = MembershipFile(str(path)), MembershipFile(str(path))
    assert it.changed() == {} == MembershipFile("").changed()
    put(path, content({"c": "10.0.0.3:1"}))
    assert it.changed() == {"c": "10.0.0.3:1"} and it.changed() == {}
    put(path, content({"c": "10.0.0.3:1", "d": "10.0.0.4:1"}))
    assert it.changed() == {"c": "10.0.0.3:1", "d": "10.0.0.4:1"} == other.changed()
    assert it.changed() == {} and os.listdir(path.parent) == ["a.membership"]


def test_a_node_that_joins_is_dialled_at_its_address_or_through_the_proxy() -> None:
    direct = launch(addresses={"a": "10.0.0.1:1", "b": "10.0.0.2:1"}).joined_by({"c": "10.0.0.3:7"})
    assert direct.nodes == ("a", "b", "c") and direct.address_of("c") == ("10.0.0.3", 7) and direct.listens[1] == 1
    behind = launch(proxy_port=9).joined_by({"c": ""}).joined_by({"c": "", "d": ""})
    assert behind.nodes == ("a", "b", "c", "d") and behind.address_of("c") == ("127.0.0.1", 9) and not behind.addresses
