"""Link rules as the kernel's packet filter carries them out, where each node has a network stack of its own.

A run has two chains of its own on each machine, named after it, for what comes in and for what goes out; each rule is a
chain that they lead to, so it can be counted and taken down without touching another. Nothing else is ever flushed. A
rule stands at the side of the link where it needs fewer machines. This page only writes and reads the filter's texts.

Below TCP a rule acts on packets: on a connection that loses some, bytes come later, after a retransmission, which is
what ``Stall`` stands for. How late is up to TCP, which doubles its patience each time: bytes may wait as long again as
a cut has lasted. ``Throttle`` drops what comes too fast, so that TCP slows down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from zlib import crc32

from chaos.links import HARNESS, Action, Drop, LinkRule, Pass, Reset, Stall, Throttle

#: What the filter can do. It can't delay; the kernel's netem could, where it is there.
ACTIONS: frozenset[type] = frozenset({Drop, Reset, Stall, Throttle})
#: A connection that is throttled may send so much at once: a few packets must fit, and packets between containers can
#: be larger than those on a wire.
LEAST_BURST_BYTES = 16_384
#: The program in its two flavours: a kernel may know the one or the other.
FLAVOURS = ("iptables-nft", "iptables-legacy")
#: Waiting for another who changes the filter at the same time.
WAIT_S = 5
_VERDICTS = ("DROP", "REJECT")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part of a rule stands: on the machine of ``node``, for packets that come ``inward`` from these addresses
    or go out to them."""

    node: str
    inward: bool
    peers: tuple[str, ...]


def run_chain(run_id: str) -> str:
    """The stem of the names of a run's chains; a name has 28 characters at most."""
    return f"stormproof-{crc32(run_id.encode()):08x}"


def setup(stem: str) -> str:
    """Make the run's two chains; empty them if they are there."""
    return _batch(
        f":{stem}-in - [0:0]",
        f":{stem}-out - [0:0]",
        f"-I INPUT -j {stem}-in",
        f"-I OUTPUT -j {stem}-out",
    )


def places(rule: LinkRule, addresses: Mapping[str, str]) -> list[Place]:
    """Where a rule must stand to hold between these nodes (name → address). Clients are no business of the filter."""
    sources, targets = (_named(rule, names, addresses) for names in (rule.sources, rule.targets))
    inward = len(targets) <= len(sources)
    at, others = (targets, sources) if inward else (sources, targets)
    found = (Place(node, inward, tuple(addresses[peer] for peer in others if peer != node)) for node in at)
    return [place for place in found if place.peers]


def put_up(stem: str, chain: str, place: Place, action: Action) -> str:
    """Put up a part of a rule, after those that stand there already."""
    way = "-s" if place.inward else "-d"
    lines = [line for peer in place.peers for line in _lines(f"{way} {peer}", action, chain)]
    return _batch(
        f":{chain} - [0:0]", *(f"-A {chain} {line}" for line in lines), f"-A {_leads(stem, place)} -j {chain}"
    )


def take_down(stem: str, chain: str, place: Place) -> str:
    """Take down what :func:`put_up` has put up there."""
    return _batch(f"-D {_leads(stem, place)} -j {chain}", f"-F {chain}", f"-X {chain}")


def restore(flavour: str) -> list[str]:
    """The command that takes a batch from its standard input and does all of it or nothing."""
    return [f"{flavour}-restore", "--noflush", "-w", str(WAIT_S)]


def listing(flavour: str, chain: str) -> list[str]:
    """The command whose output :func:`packets` reads."""
    return [flavour, "-w", str(WAIT_S), "-n", "-v", "-x", "-L", chain]


def packets(listed: str) -> int:
    """How many packets a rule has decided."""
    rows = (line.split() for line in listed.splitlines())
    return sum(int(row[0]) for row in rows if len(row) > 2 and row[0].isdigit() and row[2] in _VERDICTS)


def _named(rule: LinkRule, names: frozenset[str], addresses: Mapping[str, str]) -> list[str]:
    return [node for node in addresses if rule.holds(node, names) and node != HARNESS]


def _lines(match: str, action: Action, name: str) -> list[str]:
    if isinstance(action, Pass):
        return []
    if isinstance(action, Stall):
        return [f"{match} {_sometimes(action.per_mille)}-j DROP"]
    if isinstance(action, Reset):  # a connection that this has broken may say so to the other side
        return [
            f"-p tcp {match} --tcp-flags RST RST -j RETURN",
            f"-p tcp {match} {_sometimes(action.per_mille)}-j REJECT --reject-with tcp-reset",
        ]
    if isinstance(action, Throttle):
        burst = max(action.bytes_per_s, LEAST_BURST_BYTES)
        return [
            f"-p tcp {match} -m hashlimit --hashlimit-name {name} --hashlimit-mode srcip,srcport,dstip,dstport"
            f" --hashlimit-above {action.bytes_per_s}b/s --hashlimit-burst {burst}b -j DROP"
        ]
    if isinstance(action, Drop):
        return [f"{match} -j DROP"]
    raise ValueError(f"the packet filter can't carry out {action}")


def _sometimes(per_mille: int) -> str:
    return "" if per_mille >= 1000 else f"-m statistic --mode random --probability {per_mille / 1000:.4f} "


def _leads(stem: str, place: Place) -> str:
    return f"{stem}-{'in' if place.inward else 'out'}"


def _batch(*lines: str) -> str:
    return "\n".join(("*filter", *lines, "COMMIT", ""))
