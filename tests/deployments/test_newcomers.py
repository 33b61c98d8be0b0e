"""How running nodes learn of one that joins them."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.node import NodeSpec
from chaos.shell.membership import Newcomers, tell
from chaos.shell.node_process import Launch

SPEC = NodeSpec(name="a", role="toy", package="toys")


def launch(**others: object) -> Launch:
    told = {"spec": SPEC, "nodes": ("a", "b"), "incarnation": 1, "seed": 1, "disk": "", "trace": "", **others}
    return Launch(**told)  # type: ignore[arg-type]


def test_each_change_of_the_file_is_news_once(tmp_path: Path) -> None:
    path = tmp_path / "launch" / "newcomers.json"
    it, other = Newcomers(str(path)), Newcomers(str(path))
    assert it.news() == {} == Newcomers("").news()
    tell(path, {"c": "10.0.0.3:1"})
    assert it.news() == {"c": "10.0.0.3:1"} and it.news() == {}
    tell(path, {"c": "10.0.0.3:1", "d": "10.0.0.4:1"})
    assert it.news() == {"c": "10.0.0.3:1", "d": "10.0.0.4:1"} == other.news()
    assert it.news() == {} and os.listdir(path.parent) == ["newcomers.json"]
    assert path.stat().st_mode & 0o444 == 0o444, "nodes may run as another user"


def test_a_newcomer_is_dialled_at_its_address_or_through_the_proxy() -> None:
    direct = launch(addresses={"a": "10.0.0.1:1", "b": "10.0.0.2:1"}).knowing({"c": "10.0.0.3:7"})
    assert direct.nodes == ("a", "b", "c") and direct.way_to("c") == ("10.0.0.3", 7) and direct.listens[1] == 1
    behind = launch(proxy_port=9).knowing({"c": ""}).knowing({"c": "", "d": ""})
    assert behind.nodes == ("a", "b", "c", "d") and behind.way_to("c") == ("127.0.0.1", 9) and not behind.addresses
