"""Properties that RocketMQ's programs don't know are named before anything is started."""

from __future__ import annotations

import struct
from pathlib import Path
from zipfile import ZipFile

import pytest

from drivers.rocketmq import RECIPES, properties
from drivers.rocketmq.cluster import BROKERS, CONTROLLERS, TIER
from drivers.rocketmq.driver import Options, create

CONFIG = properties.BROKER[0]


def klass(*texts: str) -> bytes:
    """The beginning of a class file: these texts among constants of other kinds, of which a long takes two places."""
    constants = [struct.pack(">Bq", 5, 7), struct.pack(">BH", 7, 1)]
    constants += [struct.pack(">BH", 1, len(text)) + text.encode() for text in texts]
    return struct.pack(">IHHH", 0xCAFEBABE, 0, 52, len(constants) + 2) + b"".join(constants)


def jar(lib: Path, content: bytes) -> Path:
    lib.mkdir(parents=True, exist_ok=True)
    with ZipFile(lib / f"rocketmq-{len(content)}.jar", "w") as archive:
        archive.writestr(f"{CONFIG}.class", content)
    return lib


def test_setters_tell_the_properties(tmp_path: Path) -> None:
    lib = jar(
        tmp_path, klass("setSlaveTimeout", "getBrokerName", "settle", "setHaMasterAddress", "set", "setjRaftGroupId")
    )
    assert properties.properties(lib, properties.BROKER) == {"slaveTimeout", "haMasterAddress", "jRaftGroupId"}
    assert properties.complain("broker_options", ["slaveTimeout"], lib, properties.BROKER) == ""
    told = properties.complain("broker_options", ["slavetimeOut", "zzz"], lib, properties.BROKER)
    assert "'slavetimeOut', did you mean slaveTimeout?" in told and told.endswith("no property 'zzz'")


@pytest.mark.parametrize("content", [b"", klass("setA")[:14], klass()[:10] + b"\xff" * 40])
def test_programs_that_dont_tell_are_believed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rocketmq-broken.jar").write_bytes(b"no archive")
    assert properties.complain("broker_options", ["a"], jar(tmp_path, content), properties.BROKER) == ""


@pytest.mark.skipif(not RECIPES[0].installed, reason="not there: stormproof install rocketmq")
def test_rocketmq_itself_knows_what_the_driver_sets() -> None:
    lib = RECIPES[0].program("lib")
    assert not properties.complain("broker_options", {**BROKERS, **TIER}, lib, properties.BROKER)
    assert not properties.complain("controller_options", CONTROLLERS, lib, properties.CONTROLLER)
    misspelt = create(Options(broker_options={"slaveTimeut": 1}))
    with pytest.raises(ValueError, match="did you mean slaveTimeout"):
        misspelt.cluster("")


def test_a_class_is_found_in_whichever_package_a_version_has_it(tmp_path: Path) -> None:
    for version, package in (("5.1.4", "provider/posix"), ("5.5.0", "provider")):
        lib = tmp_path / version
        lib.mkdir()
        with ZipFile(lib / f"rocketmq-tiered-store-{version}.jar", "w") as content:
            content.writestr(f"org/apache/rocketmq/tieredstore/{package}/PosixFileSegment.class", b"")
        found = properties.class_called("PosixFileSegment", lib, "rocketmq-tiered-store-*.jar")
        assert found == f"org.apache.rocketmq.tieredstore.{package.replace('/', '.')}.PosixFileSegment"
    assert properties.class_called("Other", lib, "rocketmq-tiered-store-*.jar") == ""
