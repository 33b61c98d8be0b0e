"""What faults did to nodes that a weakness of the profile may explain a loss by."""

from __future__ import annotations

from collections.abc import Callable

from chaos.driver import Profile
from chaos.fault import Effect
from chaos.shard_rows import Rows
from checkers._facts.faults import Fault, faults
from checkers._facts.run import in_s, load_began_ns

#: Words of the profile, as an experiment has them.
ASYNC, UNCLEAN, ONE_IN_SYNC = "`flush: async`", "`unclean: true`", "`min_in_sync: 1`"


def acks(profile: Profile) -> str:
    return f"`acks: {profile.acks}`"


def at_time(rows: Rows, time_ns: int) -> str:
    return in_s(time_ns - rows.memo(load_began_ns))


def struck(
    rows: Rows, node: str, since_ns: int, until_ns: int, did: Callable[[Fault], bool]
) -> tuple[Fault | None, Fault | None]:
    """Return the last fault that surely did this to the node within this time, and the last one that may have, since it
    declares no effects."""
    lasted = [one for one in rows.memo(faults) if one.began_ns <= until_ns and one.until_ns >= since_ns]
    sure = [fault for fault in lasted if did(fault)]
    perhaps = [fault for fault in lasted if fault.may_hit(node)]
    return (sure[-1] if sure else None), (perhaps[-1] if perhaps else None)


def crashed(node: str) -> Callable[[Fault], bool]:
    return lambda fault: node in fault.hits(Effect.MAY_CRASH)


def lost_disk(node: str) -> Callable[[Fault], bool]:
    return lambda fault: node in fault.hits(Effect.LOSES_DISK)


def lost_unsynced(node: str) -> Callable[[Fault], bool]:
    """Return a test for faults that took unsynced data of this node. A program of others that is killed loses nothing
    that it has written: the kernel has it. Only a power cut that was seen to take files or blocks shows a loss."""
    return lambda fault: node in fault.lost_data


def described(rows: Rows, fault: Fault, node: str) -> str:
    return f"{fault.process} on {node} at {at_time(rows, fault.from_ns)}"
