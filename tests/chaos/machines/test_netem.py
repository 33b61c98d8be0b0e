"""What rules on a link ask of netem, in its words."""

from __future__ import annotations

from random import Random

import pytest

from chaos.effects.links import Action, Corrupt, Delay, Reorder
from chaos.machines import netem

MS = 1_000_000
LIMIT = f"netem limit {netem.LIMIT}"


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([Delay(150 * MS)], "delay 150000us reorder 0% corrupt 0%"),
        ([Delay(150 * MS, 100 * MS)], "delay 200000us 50000us reorder 0% corrupt 0%"),  # 150 to 250 ms
        ([Delay(40 * MS), Delay(10 * MS, 20 * MS)], "delay 60000us 10000us reorder 0% corrupt 0%"),  # both: 50 to 70 ms
        ([Corrupt(20), Corrupt(500)], "reorder 0% corrupt 51%"),
        ([Reorder(200, 100 * MS)], "delay 100000us reorder 80% corrupt 0%"),  # a fifth waits, the others overtake it
        ([Reorder(1000, 100 * MS)], "delay 100000us reorder 0% corrupt 0%"),
        ([Reorder(200, 0)], "reorder 0% corrupt 0%"),  # without a delay netem can't reorder
        ([Reorder(200, 100 * MS), Delay(150 * MS)], "delay 200000us 50000us reorder 0% corrupt 0%"),  # none escapes
        ([Corrupt(5), Delay(1 * MS)], "delay 1000us reorder 0% corrupt 0.5%"),
    ],
)
def test_one_netem_does_what_all_rules_ask(actions: list[Action], words: str) -> None:
    assert netem.leaf(actions) == f"{LIMIT} {words}"


def test_the_order_of_rules_does_not_matter() -> None:
    rng = Random(1)
    for _ in range(200):
        kinds = [Delay(rng.randrange(9) * MS), Reorder(rng.randint(1, 999), MS), Corrupt(3), Delay(MS, MS)]
        actions = rng.sample(kinds, rng.randint(1, 4))
        assert netem.leaf(actions) == netem.leaf(actions[::-1])


def test_what_strikes_now_and_then_counts_only_that_part_of_the_packets() -> None:
    assert netem.hits(Delay(1), 500) == 500
    assert netem.hits(Corrupt(20), 500) == 10
    assert netem.hits(Reorder(1, 1), 500) == 0


def test_who_controls_a_device_is_read_from_what_the_kernel_shows() -> None:
    major = netem.major("run")
    shown = f"""\
qdisc noqueue 0: dev lo root refcnt 2
qdisc mq 0: dev eth0 root
qdisc fq_codel 0: dev eth0 parent :1 limit 10240p
qdisc htb {major}: dev eth1 root refcnt 2 r2q 10 default 0
qdisc netem 8001: dev eth1 parent {major}:1 limit 1000
qdisc htb 1: dev eth2 root refcnt 2 r2q 10 default 0x1
"""
    assert dict(netem.taken(shown, major)) == {"eth1": "", "eth2": "htb 1:"}


def test_routes_name_their_devices() -> None:
    told = "local 10.0.0.1 dev lo src 10.0.0.1 uid 0 \\    cache <local> \n10.0.0.2 dev eth0 src 10.0.0.1 uid 0\n"
    assert netem.devices(told) == ["lo", "eth0"]
    assert netem.routes(["10.0.0.1", "10.0.0.2"]) == "route get 10.0.0.1\nroute get 10.0.0.2\n"


def test_each_run_has_a_handle_that_the_kernel_takes() -> None:
    majors = {netem.major(f"run-{number}") for number in range(500)}
    assert len(majors) > 400 and all(0 < int(major, 16) < 0xFFFF for major in majors)
