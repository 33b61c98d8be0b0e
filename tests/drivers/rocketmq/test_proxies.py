"""Proxies of a RocketMQ cluster, and the pop consumers that ask them."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from chaos.driver import ClientCommand, Dials, HasClientLibrary
from chaos.errors import BadInput
from chaos.node import NodeSpec
from chaos.recipe import Recipe
from drivers._java.client_library import CLASSES
from drivers._java.maven import LIB
from drivers._java.recipes import GRPC, proxy_jar
from drivers.rocketmq import RECIPES, properties
from drivers.rocketmq.cluster import PROXIES
from drivers.rocketmq.driver import Options, create
from stormproof import cli
from tests.drivers.rocketmq.test_topology import TWO, healthy

TWO_PROXIES = Options(proxies=2, nameservers=2, queues=2)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Everything but the proxy."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = RECIPES[0].folder
    for made in (LIB, CLASSES):
        (folder / made).mkdir(parents=True)
    for made in RECIPES[0].makes:
        (folder / made).touch()
    return folder


def proxies(options: Options) -> list[NodeSpec]:
    return [node for node in create(options).cluster("").nodes if node.role == "proxy"]


def test_a_proxy_is_a_program_with_ports_and_settings_of_its_own(installed: Path) -> None:
    (installed / proxy_jar("5.5.0")).touch()
    one, two = (node.program for node in proxies(replace(TWO_PROXIES, proxy_options={"maxMessageSize": 7})))
    assert one is not None and two is not None
    told = json.loads(cast(str, two.files["rmq-proxy.json"]))
    assert told["namesrvAddr"] == "{ip:nameserver-0}:9876;{ip:nameserver-1}:9877" and told["proxyMode"] == "cluster"
    assert told["grpcServerPort"] == two.ports["main"] and told["remotingListenPort"] == two.ports["remoting"]
    assert told["maxMessageSize"] == 7 and told["useEndpointPortFromRequest"] == "true"
    assert not set(one.ports.values()) & set(two.ports.values())
    assert one.argv[-2:] == ("-pc", "{home}/rmq-proxy.json") and "[ $code = 1 ] || exit" in one.argv[2]
    assert proxies(Options()) == []


def test_an_installation_without_the_proxy_is_refused_in_one_sentence(installed: Path) -> None:
    with pytest.raises(BadInput, match=r"^proxies: rocketmq 5\.5\.0 is installed without its proxy \(lib/rocketmq-pr"):
        proxies(TWO_PROXIES)
    assert proxies(Options()) == []  # nobody asked for one


def test_a_version_whose_proxy_was_never_published_is_installed_without_it(installed: Path) -> None:
    old = next(one for one in RECIPES if one.version == "5.1.4")
    assert "rocketmq-broker" in old.files["pom.xml"] and "rocketmq-proxy" not in old.files["pom.xml"]
    with pytest.raises(BadInput, match=r"^proxies: no proxy of 5\.1\.4 was published; take one of 5\.5\.0, 5\.4\.0, 5"):
        proxies(replace(TWO_PROXIES, version="5.1.4"))


def test_settings_that_are_not_the_users_are_refused(installed: Path) -> None:
    (installed / proxy_jar("5.5.0")).touch()
    with pytest.raises(ValueError, match="proxy_options: proxyMode can't be given"):
        proxies(replace(TWO_PROXIES, proxy_options={"proxyMode": "local"}))


def test_faults_find_proxies_among_the_other_servers() -> None:
    view = asyncio.run(create(replace(TWO, proxies=1)).view(healthy()))
    assert view.settled and view.others == ("nameserver-0", "proxy-0")


class Dialled:
    async def endpoint(self, client: str, node: str, port: str = "") -> tuple[str, int]:
        return "127.0.0.1", 5000 + len(node) + int(node[-1])


def command(options: Options, **orders: int) -> ClientCommand:
    driver = create(options)
    assert isinstance(driver, HasClientLibrary)
    return asyncio.run(driver.library_command(cast(Dials, Dialled()), "library", orders))


def test_pop_consumers_are_told_of_the_proxies_and_alone_have_their_client(installed: Path) -> None:
    pops, others = command(TWO_PROXIES, pop=1), command(TWO_PROXIES, push=1)
    assert json.loads(pops.env["STORMPROOF_ORDERS"])["proxies"] == "127.0.0.1:5007;127.0.0.1:5008"
    assert f"{installed}/{CLASSES}:{installed}/{GRPC}/*:{installed}/{LIB}/*" in pops.argv
    assert not [word for word in others.argv if GRPC in word]
    assert "there is none; add `proxies: 1`" in create(Options()).library_lacks()["pop"]
    assert create(TWO_PROXIES).library_lacks() == {}


def test_the_recipe_fetches_the_proxy_and_the_client() -> None:
    files = RECIPES[0].files
    assert "rocketmq-proxy" in files["pom.xml"] and "rocketmq-client-java" in files["grpc/pom.xml"]
    assert [step.does for step in RECIPES[0].steps if "grpc/pom.xml" in step.command] == [
        "fetch the gRPC client 5.2.0 with Maven (27 MiB)"
    ]


def has_proxy(installation: Recipe) -> bool:
    return installation.installed and (installation.folder / proxy_jar(installation.version)).is_file()


needs_jars = pytest.mark.skipif(not has_proxy(RECIPES[0]), reason="not there: stormproof install rocketmq")
needs_clients = pytest.mark.skipif(
    shutil.which("java") is None or not (RECIPES[0].folder / CLASSES).is_dir(),
    reason="not there: stormproof install rocketmq, with a JDK",
)


@needs_jars
def test_rocketmq_itself_knows_what_the_driver_sets() -> None:
    (spec,) = proxies(Options(proxies=1))
    assert spec.program is not None
    told: dict[str, Any] = json.loads(cast(str, spec.program.files["rmq-proxy.json"]))
    lib = RECIPES[0].program(LIB)
    assert not properties.complain("proxy_options", {**told, **PROXIES}, lib, properties.PROXY)
    with pytest.raises(ValueError, match=r"proxy_options: .* did you mean maxMessageSize"):
        proxies(Options(proxies=1, proxy_options={"maxMesageSize": 1}))


EXPERIMENT = """
name: pop
system:
  rocketmq: {queues: 2, controllers: 1, brokers: 1, proxies: 1}
profile: {min_in_sync: 1}
duration: 20s
bounds: {available_s: 60, recover_s: 120, drain_s: 150}
workloads:
  - queue: {producers: 1, consumers: 0, rate_per_s: 10}
  - library: {asynchronous: 0, ordered: 0, batch: 0, push: 0, orderly: 0, pull: 0, pop: 1, rate_per_s: 10}
faults:
  - kill: {target: proxy-0}
    at: 5s
    for: 3s
"""


@pytest.mark.full
@pytest.mark.netns
@needs_jars
@needs_clients
def test_a_group_is_given_everything_over_a_kill_of_the_proxy(tmp_path: Path) -> None:
    (tmp_path / "pop.yaml").write_text(EXPERIMENT)
    code = cli._run(["run", str(tmp_path / "pop.yaml"), "--on", "netns", "--out", str(tmp_path / "runs")])
    (run,) = (tmp_path / "runs").glob("pop-*")
    laws = {one["law"]: one for one in json.loads((run / "verdict.json").read_text())["laws"]}
    counts = laws["deliveries"]["counts"]
    assert code in (0, 2) and laws["deliveries"]["validity"] == laws["durability"]["validity"] == "VALID"
    assert counts["groups_awaited"] == 2 and counts["acks"] > 100 and counts["delivered"] >= counts["acks"]
