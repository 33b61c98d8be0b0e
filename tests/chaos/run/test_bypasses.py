"""Who goes round the proxies is noticed, and said in the verdict of a run that has rules on links."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from chaos.deployment import CanKill, CanRuleLinks, Demands, Deployment
from chaos.machines import procfs
from chaos.machines.machine import Machine, Seat
from chaos.run.bypasses import Bypasses

RULED = Demands(powers=frozenset({CanRuleLinks}))


class Seen:
    """A deployment that has seen a bypass."""

    async def bypassed(self, pid: int) -> Mapping[str, str]:
        return {"broker-0": "127.1.1.2:9092"} if pid == 7 else {}

    async def strange_addresses(self) -> Sequence[str]:
        return ["kafka.example:9092"]


def noted(demands: Demands) -> list[str]:
    rows: list[str] = []

    def record(kind: str, **columns: Any) -> int:
        assert (kind, columns["f"]) == ("harness", "bypass")
        rows.append(columns["value"]["what"])
        return 0

    async def main() -> None:
        it = Bypasses(cast(Deployment, Seen()), record, demands)
        for pid in (7, 8, 7):
            await it.look("library", pid)
        await it.end()

    asyncio.run(main())
    return rows


def test_each_way_round_is_noted_once_where_rules_on_links_would_miss_it() -> None:
    assert noted(RULED) == [
        "client library has reached broker-0 at 127.1.1.2:9092, round the proxies: rules on links miss it",
        "clients were given 'kafka.example:9092', which is no node's address: rules on links miss it",
    ]
    assert noted(Demands(powers=frozenset({CanKill}))) == []


@pytest.mark.parametrize("family, host", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::ffff:127.0.0.1")])
def test_the_kernel_says_with_whom_a_process_is_connected(family: socket.AddressFamily, host: str) -> None:
    """Java's sockets are of IPv6, whatever they are connected with."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(family) as client:
        try:
            client.connect((host, server.getsockname()[1]))
        except OSError:
            pytest.skip("this machine has no IPv6")
        where = f"127.0.0.1:{server.getsockname()[1]}"
        assert where in procfs.connected([procfs.Process.of(os.getpid())])
    assert where not in procfs.connected([procfs.Process.of(os.getpid())])


def test_a_node_is_known_by_all_its_addresses() -> None:
    seat = Seat(
        machine=cast(Machine, None),
        ip="10.0.0.1",
        ports={"main": 9092, "votes": 9093},
        reached={"main": ("127.0.0.1", 4000)},
        names=("shop-kafka-1",),
    )
    assert seat.known_as("broker-0") == {
        "broker-0": "",
        "127.0.0.1:4000": "main",
        **{
            f"{host}:{number}": port
            for host in ("broker-0", "10.0.0.1", "shop-kafka-1")
            for port, number in (("main", 9092), ("votes", 9093))
        },
    }
