"""What people can say of a split cluster's nodes is all that their code asks for."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

import reference.split
from chaos.node import NodeSpec
from reference.raft.options import RaftOptions
from reference.split.options import OPTIONS, layout_of, names_of, number_of

HOME = Path(reference.split.__file__).parent
#: Options that are read by name, also over several lines.
READ = re.compile(r'(?:options\.get\(|(?:number_of|names_of)\(\s*(?:spec\.)?options,)\s*"(\w+)"')
#: By role, the code that reads them beside what all share.
PLACES = {"meta": "meta/*.py", "store": "store/*.py", "broker": "broker/*.py", "nameserver": "nameserver.py"}
RAFT = {field.name for field in fields(RaftOptions)}
LAYOUT = {"groups", "slices"}


def test_no_option_is_missing_and_none_is_unknown() -> None:
    assert set(OPTIONS) == set(reference.split.ROLES)
    for role, place in PLACES.items():
        files = sorted(HOME.glob(place))
        assert files
        read = {name for file in files for name in READ.findall(file.read_text("utf-8"))} | LAYOUT
        read |= RAFT if role in ("meta", "store") else set()
        read |= {"metadata_kept"} if role == "meta" else set()
        assert set(OPTIONS[role]) - {"cluster_id"} == read - {"cluster_id"}, role


@pytest.mark.parametrize("role", PLACES)
def test_a_node_says_what_is_wrong_with_its_options(role: str) -> None:
    for bad in ({"metas": "meta-0"}, {"metas": ["meta-0"], "groups": 0}, {"metas": ["meta-0"], "slices": 9}):
        with pytest.raises(ValueError, match=r"metas|groups|slices"):
            reference.split.build(NodeSpec(name=f"{role}-0", role=role, package="reference.split", options=bad))


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(ValueError, match="role must be one of meta, store"):
        reference.split.build(NodeSpec(name="x", role="controller", package="reference.split"))


@pytest.mark.parametrize("value", [0, -1, True, "4", 1.5, None])
def test_numbers_are_whole_and_large_enough(value: object) -> None:
    with pytest.raises(ValueError, match="moves must be a whole number that is 1 or more"):
        number_of({"moves": value}, "moves", 4)


def test_what_is_left_out_has_a_default() -> None:
    assert layout_of({}) == (8, 2) and layout_of({"groups": 1}) == (1, 1) and names_of({}, "metas") == ()
