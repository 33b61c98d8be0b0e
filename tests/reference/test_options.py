"""What people can say of a reference node is all that its code asks for."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import reference
from reference.options import OPTIONS
from reference.raft.options import RaftOptions
from reference.tier.storage import TierOptions

HOME = Path(reference.__file__).parent
#: Options that are read by name: ``options.get("name", …)``, also over several lines.
READ = re.compile(r'options\.get\(\s*"(\w+)"')


def read_in(*places: str) -> set[str]:
    files = [file for place in places for file in sorted(HOME.glob(place))]
    assert files
    return {name for file in files for name in READ.findall(file.read_text("utf-8"))}


def test_no_option_is_missing_and_none_is_unknown() -> None:
    raft = {field.name for field in fields(RaftOptions)}
    tier = {field.name for field in fields(TierOptions)}
    assert set(OPTIONS) == set(reference.ROLES)
    follows, keeps = {"metadata", "controllers"}, {"metadata", "metadata_kept"}
    embedded = {"embedded"}
    assert read_in("__init__.py", "metadata/*.py") == follows | keeps | embedded | {"store"}
    assert set(OPTIONS["controller"]) == read_in("controller/*.py", "nameserver.py") | raft | keeps | embedded
    assert set(OPTIONS["broker"]) == read_in("broker/*.py") | tier | follows
    assert set(OPTIONS["nameserver"]) == read_in("nameserver.py") | follows
    assert set(OPTIONS["objectstore"]) == read_in("objectstore/*.py")
