"""What a link rule means to the packet filter: the pairs of nodes that it hits are those that the rule names."""

from __future__ import annotations

from random import Random

import pytest

from chaos.effects.links import HARNESS, Delay, Drop, Duplicate, LinkRule, Pass, Reset, Stall, Throttle
from chaos.machines import iptables
from chaos.machines.iptables import Endpoint

NODES = {f"node-{number}": Endpoint(f"node-{number}", f"10.0.0.{number}") for number in range(5)}
#: Five nodes on two machines.
SHARED = {
    f"node-{number}": Endpoint(f"m-{number % 2}", f"10.0.0.{number % 2}", f"{number}00:{number}99")
    for number in range(5)
}
ONE = (Endpoint("node-0", "10.0.0.0"), Endpoint("node-1", "10.0.0.1"))


def pairs(rule: LinkRule, nodes: dict[str, Endpoint]) -> list[tuple[str, str]]:
    """Sources and targets whose packets the rule meets, as it is placed."""
    names = {endpoint: name for name, endpoint in nodes.items()}
    found = []
    for place in iptables.places(rule, nodes):
        assert all(here.machine == place.machine for here, _ in place.ways)
        ways = [(names[here], names[peer]) for here, peer in place.ways]
        found += [(peer, here) if place.inward else (here, peer) for here, peer in ways]
    return found


@pytest.mark.parametrize("nodes", [NODES, SHARED], ids=["alone", "shared"])
@pytest.mark.parametrize("seed", range(200))
def test_a_rule_meets_each_pair_that_it_names_once_and_no_other(seed: int, nodes: dict[str, Endpoint]) -> None:
    rng = Random(seed)
    action = Duplicate(500, 1) if seed % 2 else Drop()
    everybody = [*NODES, "client", HARNESS, "*"]
    sides = [frozenset(rng.sample(everybody, rng.randint(1, 3))) for _ in range(2)]
    rule = LinkRule(*sides, action, frozenset(rng.sample(sorted(NODES), rng.choice((0, 0, 2)))))
    meant = [
        (source, target)
        for source in NODES
        for target in NODES
        if source != target and not isinstance(rule.decide(source, target), Pass)
    ]
    assert sorted(pairs(rule, nodes)) == sorted(meant)


def test_an_isolated_node_takes_one_machine_for_each_direction() -> None:
    one, everybody = frozenset({"node-2"}), frozenset({"*"})
    for rule in (LinkRule(one, everybody, Drop()), LinkRule(everybody, one, Drop())):
        (place,) = iptables.places(rule, NODES)
        assert place.machine == "node-2" and len(place.ways) == len(NODES) - 1


def test_copies_are_sent_from_where_packets_are() -> None:
    rule = LinkRule(frozenset({"*"}), frozenset({"node-1"}), Duplicate(250, 1))
    places = iptables.places(rule, NODES)
    assert not any(place.inward for place in places)
    assert [place.machine for place in places] == [name for name in NODES if name != "node-1"]
    up = iptables.put_up("s", "s-1", places[0], rule.action)
    assert "-A s-1 -d 10.0.0.1 -m statistic --mode random --probability 0.2500 -j TEE --gateway 10.0.0.1\n" in up
    assert "\n-I s-out -j s-1\n" in up


def test_links_of_clients_are_no_business_of_the_filter() -> None:
    for targets in ({"*"}, {"node-1"}):
        assert iptables.places(LinkRule(frozenset({"client"}), frozenset(targets), Drop()), NODES) == []


def test_batches_name_only_chains_of_the_run() -> None:
    stem = iptables.run_chain("quickstart-0-20260101T000000")
    place = iptables.Place("node-0", True, (ONE,))
    chain = f"{stem}-123456"
    assert len(chain) <= 28 and len(f"{stem}-out-cut") <= 28
    up = iptables.put_up(stem, chain, place, Drop())
    assert up == f"*filter\n:{chain} - [0:0]\n-A {chain} -s 10.0.0.1 -j DROP\n-A {stem}-in-cut -j {chain}\nCOMMIT\n"
    down = iptables.take_down(stem, chain, place, Drop())
    assert down == f"*filter\n-D {stem}-in-cut -j {chain}\n-F {chain}\n-X {chain}\nCOMMIT\n"


def test_each_action_is_what_tcp_makes_of_it() -> None:
    place = iptables.Place("node-0", False, (ONE,))
    assert "--probability 0.0500 -j DROP" in iptables.put_up("s", "s-1", place, Stall(50, 1))
    reset = iptables.put_up("s", "s-1", place, Reset())
    assert "-p tcp -d 10.0.0.1 -j REJECT --reject-with tcp-reset" in reset and "statistic" not in reset
    throttle = iptables.put_up("s", "s-1", place, Throttle(20_000))
    assert "--hashlimit-above 20000b/s" in throttle and throttle.count("-j DROP") == 1
    assert "-j DROP" not in iptables.put_up("s", "s-1", place, Pass())
    with pytest.raises(ValueError, match="Delay"):
        iptables.put_up("s", "s-1", place, Delay(1))


def test_what_loses_some_stands_in_front_of_what_cuts_and_what_resets_behind_it() -> None:
    place = iptables.Place("node-0", True, (ONE,))
    chains: dict[str, list[str]] = {}
    rng = Random(1)
    actions = [Stall(50, 1), Throttle(20_000), Drop(), Reset(), Stall(9, 1), Drop(), Reset(7)]
    rng.shuffle(actions)
    up = [iptables.put_up("s", f"s-{number}", place, action) for number, action in enumerate(actions)]
    for line in "".join((iptables.setup("s"), *up)).splitlines():
        match line.split():
            case ["-A", chain, "-j", to]:
                chains.setdefault(chain, []).append(to)
            case ["-I", chain, "-j", to]:
                chains.setdefault(chain, []).insert(0, to)
    order = [one for to in chains["s-in"] for one in (chains[to] if to == "s-in-cut" else [to])]
    kinds = [actions[int(to.removeprefix("s-"))] for to in order]
    assert sorted(kinds, key=lambda one: (isinstance(one, Reset), isinstance(one, Drop))) == kinds
    assert len(kinds) == len(actions) and chains["INPUT"] == ["s-in"]


def test_packets_are_counted_where_they_were_decided() -> None:
    listed = """Chain sp-1 (1 references)
    pkts      bytes target     prot opt in     out     source               destination
       7      280 RETURN     tcp  --  *      *       10.0.0.1             0.0.0.0/0            tcp flags:0x04/0x04
      12      480 DROP       all  --  *      *       10.0.0.1             0.0.0.0/0
       3      120 REJECT     tcp  --  *      *       10.0.0.2             0.0.0.0/0            reject-with tcp-reset
"""
    assert iptables.packets(listed) == 15


def test_copies_are_not_counted_themselves() -> None:
    listed = """Chain sp-1 (1 references)
    pkts      bytes target     prot opt in     out     source               destination
     120     4800 TEE        all  --  *      *       0.0.0.0/0            10.0.0.1             TEE gw:10.0.0.1
"""
    assert iptables.packets(listed, Duplicate(200, 1)) == 100
    assert iptables.packets(listed, Duplicate(1000, 1)) == 60


def test_nodes_that_share_an_address_are_told_apart_by_their_ports() -> None:
    way = (SHARED["node-0"], SHARED["node-1"])
    inward, outward = (
        iptables.put_up("s", "s-1", iptables.Place("m-0", side, (way,)), Drop()) for side in (True, False)
    )
    assert "-A s-1 -p tcp -s 10.0.0.1 --sport 100:199 --dport 000:099 -j DROP" in inward
    assert "-A s-1 -p tcp -d 10.0.0.1 --sport 000:099 --dport 100:199 -j DROP" in outward
    reset = iptables.put_up("s", "s-1", iptables.Place("m-0", True, (way,)), Reset())
    assert "-p tcp -s 10.0.0.1 --sport 100:199 --dport 000:099 --tcp-flags RST RST -j RETURN" in reset


def test_what_is_left_of_a_run_is_taken_down_and_nothing_else() -> None:
    saved = """-P INPUT ACCEPT
-N DOCKER
-N stormproof-1-in
-N stormproof-1-7
-N stormproof-12-in
-A INPUT -j DOCKER
-A INPUT -j stormproof-1-in
-A INPUT -j stormproof-12-in
-A stormproof-1-in -j stormproof-1-7
-A stormproof-1-7 -s 10.0.0.1/32 -j DROP"""
    assert iptables.left_of("stormproof-1", saved).splitlines() == [
        "*filter",
        "-D INPUT -j stormproof-1-in",
        "-F stormproof-1-in",
        "-F stormproof-1-7",
        "-X stormproof-1-in",
        "-X stormproof-1-7",
        "COMMIT",
    ]
    assert iptables.left_of("stormproof-2", saved) == ""
