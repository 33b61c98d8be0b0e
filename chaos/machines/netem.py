"""Link rules as the kernel's traffic control carries them out: what comes late, in another order, or wrong.

A device that a run shapes has an ``htb`` of the run's own, which limits nothing. Each directed link between two nodes
has a class in it at the sender's side, and in the class one ``netem`` that does what all rules on that link ask, so
that they add up. The packet filter sorts packets into the classes (:func:`chaos.machines.iptables.classify`);
whatever it doesn't sort passes untouched. Kernels may lack netem. This page only writes and reads texts of ``tc``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

from chaos.effects.links import Action, Corrupt, Delay, Reorder

#: What it can do to links between nodes.
ACTIONS: frozenset[type] = frozenset({Delay, Reorder, Corrupt})
#: Reads commands from its standard input and ends at the first that fails.
BATCH = ["tc", "-batch", "-"]
SHOW = ["tc", "qdisc", "show"]
ROUTES = ["ip", "-o", "-batch", "-"]
#: Packets that a link may hold back, more than come within a second at a high rate.
LIMIT = 20_000
#: The class in which it is tried what the kernel knows.
TRIAL = 0xFFF0
_ROOT = re.compile(r"^qdisc (?P<kind>\S+) (?P<major>[0-9a-f]+): dev (?P<device>\S+) root\b")


def major(run_id: str) -> str:
    """Return the handle of a run's htb, in hexadecimal digits; one that people hardly choose."""
    return f"{0x5000 + crc32(run_id.encode()) % 0x1000:x}"


def class_id(major: str, number: int) -> str:
    return f"{major}:{number:x}"


def begin(device: str, major: str) -> list[str]:
    """Take a device over, and try there what the kernel knows."""
    return [f"qdisc add dev {device} root handle {major}: htb", *shape(device, major, TRIAL, [Delay(1_000_000)])]


def shape(device: str, major: str, number: int, actions: Sequence[Action]) -> list[str]:
    """Have the packets of this class undergo all of these actions."""
    named = class_id(major, number)
    return [
        f"class replace dev {device} parent {major}: classid {named} htb rate 10gbit quantum 60000",
        f"qdisc replace dev {device} parent {named} {leaf(actions)}",
    ]


def end(device: str) -> str:
    """Give a device back: the kernel puts its usual discipline in the place of ours."""
    return f"qdisc del dev {device} root"


def leaf(actions: Sequence[Action]) -> str:
    """Return the one netem that does all of these. Its jitter is to either side; ours is delay besides. What it shall
    not do is said too: a netem that is changed goes on with whatever isn't mentioned."""
    delays = [action for action in actions if isinstance(action, Delay)]
    late_ns = sum(delay.delay_ns + delay.jitter_ns / 2 for delay in delays)
    jitter_ns = sum(delay.jitter_ns / 2 for delay in delays)
    reorders = [action for action in actions if isinstance(action, Reorder)]
    at_once = 0.0
    if reorders and not delays:  # all wait but those that overtake them
        late_ns = max(action.stall_ns for action in reorders)
        at_once = math.prod(1 - action.per_mille / 1000 for action in reorders)
    elif reorders:  # who overtakes would escape the delay: here the jitter lets packets overtake one another
        stall_ns = max(action.stall_ns for action in reorders)
        late_ns, jitter_ns = late_ns + stall_ns / 2, jitter_ns + stall_ns / 2
    words = ["netem", "limit", str(LIMIT)]
    if late_ns:
        words += ["delay", _time(late_ns), *([_time(jitter_ns)] if jitter_ns else [])]
    sound = math.prod(1 - action.per_mille / 1000 for action in actions if isinstance(action, Corrupt))
    return " ".join([*words, "reorder", _percent(at_once if late_ns else 0.0), "corrupt", _percent(1 - sound)])


def hits(action: Action, packets: int) -> int:
    """Return how many of the packets on a rule's links it has struck, on average; the kernel counts only how many there
    were."""
    return packets * action.per_mille // 1000 if isinstance(action, Reorder | Corrupt) else packets


def routes(addresses: Iterable[str]) -> str:
    """Return what :data:`ROUTES` reads: through which device one gets to each of these."""
    return "".join(f"route get {address}\n" for address in addresses)


def devices(listed: str) -> list[str]:
    """Return the device of each route, in order."""
    return re.findall(r"^.*? dev (\S+)", listed, re.MULTILINE)


def taken(shown: str, major: str) -> Iterator[tuple[str, str]]:
    """Yield the devices whose traffic somebody controls, as :data:`SHOW` lists them: device, and by what (``""`` by
    this run). What the kernel puts up by itself has the handle 0."""
    for line in shown.splitlines():
        found = _ROOT.match(line)
        if found and int(found["major"], 16):
            yield found["device"], "" if found["major"] == major else f"{found['kind']} {found['major']}:"


def _time(ns: float) -> str:
    return f"{round(ns / 1000)}us"


def _percent(part: float) -> str:
    return f"{part * 100:.4g}%"
