"""Link rules as the kernel's packet filter carries them out, where nodes are on machines of their own, or share some.

A run has two chains of its own on each machine, named after it, for what comes in and for what goes out; each rule is a
chain that they lead to, so it can be counted and taken down without touching another. Nothing else is ever flushed. A
rule stands at the side of the link that has fewer nodes. What only loses some packets stands in front of what cuts, so
that it is hit too; what resets stands behind it: through a link that is cut no reset comes either (see
:class:`chaos.effects.links.Ruling`). This page only writes and reads the filter's texts.

Below TCP a rule acts on packets: on a connection that loses some, bytes come later, after a retransmission, which is
what ``Stall`` stands for. How late is up to TCP, which doubles its patience each time: bytes may wait as long again as
a cut has lasted. ``Throttle`` drops what comes too fast, so that TCP slows down. ``Duplicate`` sends a copy along the
same way; TCP throws it away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from zlib import crc32

from chaos.effects.links import HARNESS, PASS, Action, Drop, Duplicate, LinkRule, Pass, Reset, Stall, Throttle
from chaos.machines.dials import Address

#: What the filter can do. It can't delay: that is for the kernel's traffic control (``_netem``), where in turn newer
#: kernels refuse what duplicates beside anything else on a device.
ACTIONS: frozenset[type] = frozenset({Drop, Reset, Stall, Throttle, Duplicate})
#: A connection that is throttled may send so much at once: a few packets must fit, and packets between containers can
#: be larger than those on a wire.
LEAST_BURST_BYTES = 16_384
#: The program in its two flavours: a kernel may know the one or the other.
FLAVOURS = ("iptables-nft", "iptables-legacy")
#: Waiting for another who changes the filter at the same time.
WAIT_S = 5
_VERDICTS = ("DROP", "REJECT", "CLASSIFY", "TEE")
_TCP = "-p tcp "
_CUT = "-cut"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A node as the packet filter sees it: its machine, its address, or several with commas between them, and, where it
    shares that address with others, the ports that are its alone, as ``FIRST:LAST``."""

    machine: str
    address: str
    ports: str = ""

    @property
    def addresses(self) -> Sequence[str]:
        return self.address.split(",")

    def is_at(self, address: Address) -> bool:
        """Return whether who dials this address dials this node."""
        host, port = address
        first, _, last = self.ports.partition(":")
        return host in self.addresses and (not first or int(first) <= port <= int(last or first))


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the filter, and the kernel's chains from which a run's own are entered, by the end of their names."""

    name: str
    hooks: Mapping[str, str]


#: Decides on packets.
FILTER = Table("filter", {"in": "INPUT", "out": "OUTPUT"})
#: Sorts those that leave into classes.
MANGLE = Table("mangle", {"out": "POSTROUTING"})
Way = tuple[Endpoint, Endpoint]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part of a rule stands: on this machine, for packets that come ``inward`` or go out, on these ways. A way
    is a node that is there, and its peer."""

    machine: str
    inward: bool
    ways: tuple[Way, ...]


def run_chain(run_id: str) -> str:
    """Return the stem of the names of a run's chains; a name has 28 characters at most."""
    return f"stormproof-{crc32(run_id.encode()):08x}"


def setup(stem: str, table: Table = FILTER) -> str:
    """Make the run's chains, and in each a place for what cuts; empty them if they are there."""
    chains = [f"{stem}-{end}" for end in table.hooks]
    cuts = [f"{chain}{_CUT}" for chain in chains] if table is FILTER else []
    return _batch(
        table,
        *(f":{chain} - [0:0]" for chain in (*chains, *cuts)),
        *(f"-A {cut.removesuffix(_CUT)} -j {cut}" for cut in cuts),
        *(f"-I {hook} -j {stem}-{end}" for end, hook in table.hooks.items()),
    )


def places(rule: LinkRule, endpoints: Mapping[str, Endpoint], table: Table = FILTER) -> list[Place]:
    """Return where a rule must stand to hold between these nodes (by name). Clients are no business of the filter. A
    copy can only be sent from where the packet is."""
    sources, targets = (_named(rule, names, endpoints) for names in (rule.sources, rule.targets))
    inward = "in" in table.hooks and len(targets) <= len(sources) and not isinstance(rule.action, Duplicate)
    at, others = (targets, sources) if inward else (sources, targets)
    ways: dict[str, list[Way]] = {}
    for node in at:
        here = endpoints[node]
        ways.setdefault(here.machine, []).extend((here, endpoints[peer]) for peer in others if peer != node)
    return [Place(machine, inward, tuple(found)) for machine, found in ways.items() if found]


def put_up(stem: str, chain: str, place: Place, action: Action) -> str:
    """Put up a part of a rule, among those that stand there already."""
    lines = [line for way in place.ways for line in _lines(place.inward, way, action, chain)]
    where = "-A" if isinstance(action, Drop | Reset) else "-I"
    return _put_up(FILTER, chain, lines, f"{where} {_leads(stem, place, action)}")


def classify(stem: str, chain: str, place: Place, classes: Mapping[Way, str]) -> str:
    """Have the packets of these ways go into their classes of the traffic control (``MAJOR:MINOR``)."""
    lines = [f"{''.join(_match(place.inward, *way))} -j CLASSIFY --set-class {classes[way]}" for way in place.ways]
    return _put_up(MANGLE, chain, lines, f"-A {_leads(stem, place)}")


def _put_up(table: Table, chain: str, lines: Sequence[str], lead: str) -> str:
    return _batch(table, f":{chain} - [0:0]", *(f"-A {chain} {line}" for line in lines), f"{lead} -j {chain}")


def take_down(stem: str, chain: str, place: Place, action: Action, table: Table = FILTER) -> str:
    """Take down what :func:`put_up` or :func:`classify` has put up there."""
    return _batch(table, f"-D {_leads(stem, place, action)} -j {chain}", f"-F {chain}", f"-X {chain}")


def restore(flavour: str) -> list[str]:
    """Return the command that takes a batch from its standard input and does all of it or nothing."""
    return [f"{flavour}-restore", "--noflush", "-w", str(WAIT_S)]


def listing(flavour: str, chain: str, table: Table = FILTER) -> list[str]:
    """Return the command whose output :func:`packets` reads."""
    return [flavour, "-w", str(WAIT_S), "-t", table.name, "-n", "-v", "-x", "-L", chain]


def packets(listed: str, action: Action = PASS) -> int:
    """Return how many packets a rule has decided, or sorted. Copies pass the rule again: none of them is doubled, but
    they are counted like others, so for ``Duplicate`` it is as many on average."""
    found = sum(_counts(listed))
    return found * 1000 // (1000 + action.per_mille) if isinstance(action, Duplicate) else found


def stops_all(action: Action) -> bool:
    """Return whether no packet of its ways passes a rule that does this."""
    return isinstance(action, Drop) or (isinstance(action, Reset) and action.per_mille >= 1000)


def stopped(listed: str, place: Place) -> Mapping[Way, int]:
    """Return how many packets of each way a rule has stopped that stops all; nothing if its chain is not as it was put
    up."""
    lines = [way for way in place.ways for _ in way[1].addresses]  # the filter makes a line for each address
    counts = _counts(listed)
    if len(counts) != len(lines):
        return {}
    found = dict.fromkeys(place.ways, 0)
    for way, count in zip(lines, counts, strict=True):
        found[way] += count
    return found


def _counts(listed: str) -> list[int]:
    """Return what each line that decides something has counted, in order."""
    rows = (line.split() for line in listed.splitlines())
    return [int(row[0]) for row in rows if len(row) > 2 and row[0].isdigit() and row[2] in _VERDICTS]


def left_of(stem: str, saved: str, table: Table = FILTER) -> str:
    """Return the batch that takes down all that is left of a run, as :func:`saving` lists it; "" if nothing is."""
    lines = [line for line in saved.splitlines() if line.startswith(("-N ", "-A "))]
    chains = [words[1] for line in lines if (words := line.split())[0] == "-N" and words[1].startswith(f"{stem}-")]
    leads = [
        line.replace("-A", "-D", 1)
        for line in lines
        if (words := line.split())[0] == "-A" and words[1] not in chains and words[-1] in chains
    ]
    if not chains:
        return ""
    return _batch(table, *leads, *(f"-F {chain}" for chain in chains), *(f"-X {chain}" for chain in chains))


def saving(flavour: str, table: Table = FILTER) -> list[str]:
    """Return the command whose output :func:`left_of` reads."""
    return [flavour, "-w", str(WAIT_S), "-t", table.name, "-S"]


def _named(rule: LinkRule, names: frozenset[str], endpoints: Mapping[str, Endpoint]) -> list[str]:
    return [node for node in endpoints if rule.holds(node, names) and node != HARNESS]


def _match(inward: bool, here: Endpoint, peer: Endpoint) -> tuple[str, str]:
    """Return what sets the packets of one way apart from all others: the protocol, if that must be said, and the
    rest."""
    match = f"{'-s' if inward else '-d'} {peer.address}"
    if not here.ports or not peer.ports:
        return "", match
    source, target = (peer, here) if inward else (here, peer)
    return _TCP, f"{match} --sport {source.ports} --dport {target.ports}"


def _lines(inward: bool, way: Way, action: Action, name: str) -> list[str]:
    protocol, match = _match(inward, *way)
    if isinstance(action, Pass):
        return []
    if isinstance(action, Stall):
        return [f"{protocol}{match} {_sometimes(action.per_mille)}-j DROP"]
    if isinstance(action, Duplicate):  # the copy goes where the packet goes
        return [f"{protocol}{match} {_sometimes(action.per_mille)}-j TEE --gateway {way[1].address}"]
    if isinstance(action, Reset):  # a connection that this has broken may say so to the other side
        return [
            f"{_TCP}{match} --tcp-flags RST RST -j RETURN",
            f"{_TCP}{match} {_sometimes(action.per_mille)}-j REJECT --reject-with tcp-reset",
        ]
    if isinstance(action, Throttle):
        burst = max(action.bytes_per_s, LEAST_BURST_BYTES)
        return [
            f"{_TCP}{match} -m hashlimit --hashlimit-name {name} --hashlimit-mode srcip,srcport,dstip,dstport"
            f" --hashlimit-above {action.bytes_per_s}b/s --hashlimit-burst {burst}b -j DROP"
        ]
    if isinstance(action, Drop):
        return [f"{protocol}{match} -j DROP"]
    raise ValueError(f"the packet filter can't carry out {action}")


def _sometimes(per_mille: int) -> str:
    return "" if per_mille >= 1000 else f"-m statistic --mode random --probability {per_mille / 1000:.4f} "


def _leads(stem: str, place: Place, action: Action = PASS) -> str:
    """Return the chain that leads to a rule's own."""
    return f"{stem}-{'in' if place.inward else 'out'}{_CUT if isinstance(action, Drop) else ''}"


def _batch(table: Table, *lines: str) -> str:
    return "\n".join((f"*{table.name}", *lines, "COMMIT", ""))
