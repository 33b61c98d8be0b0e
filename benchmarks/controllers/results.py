"""What the pieces of the report have measured, and what follows from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.controllers.bench import ELECT, INFO, MIXED, REGISTER
from benchmarks.controllers.cluster import ROCKETMQ
from benchmarks.controllers.failover import GROUPS as FAILOVER_GROUPS
from benchmarks.controllers.failover import HOWS
from benchmarks.controllers.pieces import GROUPS, LOGGED, USUAL, Result, kept
from reference.controller.dispatch import CLASSIC, PARALLEL

CORES = 2
NAMES = {CLASSIC: "classic", PARALLEL: "parallel", ROCKETMQ: "RocketMQ 5.5.0"}
#: Parts of the code, by how the names of its files begin; the first one that fits counts.
AREAS: Mapping[str, tuple[str, ...]] = {
    "frames (JSON headers)": ("reference/wire/",),
    "sockets and event loop": ("asyncio", "chaos/"),
    "log and disk": ("chaos/shell/strict_disk", "reference/raft/log", "reference/raft/bound"),
    "requests and state": (
        "reference/controller/node",
        "reference/controller/replicas",
        "reference/controller/dispatch",
        "reference/controller/liveness",
        "reference/controller/heartbeats",
    ),
    "Raft": ("reference/raft/",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """``value`` is None where it was not measured."""

    what: str
    value: float | None
    bound: float
    unit: str = "x"
    more_is_better: bool = True
    why: str = ""

    @property
    def is_reached(self) -> bool:
        assert self.value is not None
        return self.value >= self.bound if self.more_is_better else self.value <= self.bound

    @property
    def missed_by(self) -> str:
        """How far the value is from the bound."""
        assert self.value is not None
        factor = self.bound / self.value if self.more_is_better else self.value / self.bound
        return f"missed by a factor of {factor:.2g}"


@dataclass(frozen=True, slots=True)
class Results:
    """The results in a folder; what has not been measured is None or missing."""

    folder: Path

    def piece(self, name: str) -> Result | None:
        return kept(name, self.folder)

    def phase(self, kind: str, phase: str, groups: int = USUAL) -> Result | None:
        """One kind in one phase."""
        load = self.piece("logged-reads" if kind == LOGGED else f"load-{groups}")
        return None if load is None else load["kinds"].get(kind, {}).get(phase)

    def ratio(self, phase: str, above: str, below: str, *, of: str = "per_s") -> float | None:
        """One kind's throughput (``of``: processor time, or a percentile) by another's."""
        one, other = self.phase(above, phase), self.phase(below, phase)
        if one is None or other is None:
            return None
        if of in one["ms"]:
            return float(one["ms"][of] / other["ms"][of])
        return float(one[of] / other[of])

    def bytes_per_group(self, kind: str, groups: int) -> float | None:
        state = self.piece(f"state-{kind}-{groups}")
        return None if state is None else float(state["bytes_per_group"])

    def failover(self, kind: str, how: str, count: int) -> list[float] | None:
        """Seconds until each group had another master."""
        found = self.piece(f"failover-{kind}")
        if found is None:
            return None
        return next(one["seconds"] for one in found["trials"] if (one["how"], one["count"]) == (how, count))

    def areas(self, phase: str) -> dict[str, float]:
        """Shares of the leader's processor time, by area; empty if there is no profile."""
        profile = self.piece(f"profile-{phase}")
        if profile is None:
            return {}
        counts: Counter[str] = Counter()
        for place, times in profile["samples"].items():
            counts[_area(place)] += times
        return {name: times / counts.total() for name, times in counts.most_common()}

    # More cores than there are

    def readers(self) -> dict[int, Mapping[str, float]]:
        """By the number of controllers that answer reads: what was measured, what the model says of this machine, and
        what it says where each controller has a core of its own."""
        found = self.piece("readers")
        if found is None:
            return {}
        rates: dict[int, Mapping[str, float]] = {}
        for number, phase in found["readers"].items():
            count = phase["count"]
            each_s = [used / count for used in phase["processor_s"]]
            generator_s = phase["generator_cores"] / phase["per_s"]
            here = min(CORES / (sum(each_s) + generator_s), 1 / max(each_s), 1 / generator_s)
            rates[int(number)] = {"measured": phase["per_s"], "here": here, "own_cores": 1 / max(each_s)}
        return rates

    # Aims

    def aims(self) -> list[Aim]:
        """Return the table of issue 15, in its order."""
        readers = self.readers()
        grow = readers[3]["own_cores"] / readers[1]["own_cores"] if readers else None
        slowest = [max(self.failover(PARALLEL, how, FAILOVER_GROUPS) or (float("inf"),)) for how in HOWS]
        last = max(slowest) if self.piece(f"failover-{PARALLEL}") is not None else None
        memory = [self.bytes_per_group(PARALLEL, groups) for groups in reversed(GROUPS) if groups >= 1000]
        kib = next((value / 1024 for value in memory if value is not None), None)
        return [
            Aim(
                what="changes, 64 in flight: parallel over classic",
                value=self.ratio(REGISTER, PARALLEL, CLASSIC),
                bound=10,
                why=self._why(REGISTER, CLASSIC),
            ),
            Aim(
                what="reads, 64 in flight: parallel over classic",
                value=self.ratio(INFO, PARALLEL, CLASSIC),
                bound=10,
                why=self._why(INFO, CLASSIC),
            ),
            Aim(
                what="reads from three controllers over reads from one (a core each, by the model)",
                value=grow,
                bound=2.5,
                why=self._why_readers(),
            ),
            Aim(
                what="p99 of a read beside changes and heartbeats: parallel over classic",
                value=self.ratio(MIXED, PARALLEL, CLASSIC, of="99"),
                bound=0.2,
                more_is_better=False,
                why=self._why_mixed(),
            ),
            Aim(
                what=f"failover of {FAILOVER_GROUPS:,} groups at once, killed or silent, the last one",
                value=last,
                bound=5,
                unit="s",
                more_is_better=False,
            ),
            Aim(what="changes: parallel over RocketMQ", value=self.ratio(REGISTER, PARALLEL, ROCKETMQ), bound=2),
            Aim(
                what="reads: parallel over RocketMQ (from its leader's memory)",
                value=self.ratio(INFO, PARALLEL, ROCKETMQ),
                bound=2,
                why=self._why(INFO, ROCKETMQ),
            ),
            Aim(
                what="p99 of a change, 64 in flight: parallel over RocketMQ",
                value=self.ratio(REGISTER, PARALLEL, ROCKETMQ, of="99"),
                bound=0.5,
                more_is_better=False,
            ),
            Aim(
                what="p99 of a read, 64 in flight: parallel over RocketMQ",
                value=self.ratio(INFO, PARALLEL, ROCKETMQ, of="99"),
                bound=0.5,
                more_is_better=False,
                why=self._why(INFO, ROCKETMQ),
            ),
            Aim(what="memory of a group of three", value=kib, bound=4, unit="KiB", more_is_better=False, why=_MEMORY),
        ]

    def straw_man(self) -> dict[str, float]:
        """By phase, classic's throughput over RocketMQ's, as far as both are known. Reads that are entries of the log
        are compared with such reads."""
        found = {phase: self.ratio(phase, CLASSIC, ROCKETMQ) for phase in (REGISTER, ELECT)}
        found[INFO] = self.ratio(INFO, CLASSIC, LOGGED)
        return {phase: value for phase, value in found.items() if value is not None}

    def _why_readers(self) -> str:
        found = self.piece("readers")
        if found is None:
            return ""
        one, three = (found["readers"][number] for number in ("1", "3"))
        alone_us, shared_us = (1e6 * phase["processor_s"][0] / phase["count"] for phase in (one, three))
        return (
            f"Where the leader answers all reads, each costs it {alone_us:.0f} µs of processor time; where it answers"
            f" every third one, a read still costs it {shared_us:.0f} µs: its own share of the reads, the questions of"
            " its followers, and rounds of messages for both. Each controller has one question or round under way at a"
            " time, for all reads that came meanwhile; on one machine it ends so soon that few reads share it."
        )

    def _why_mixed(self) -> str:
        median = self.ratio(MIXED, PARALLEL, CLASSIC, of="50")
        return (
            "Meanwhile each mode answers as many changes as it can, `parallel` several times as many, so that its three"
            " processes and the generator compete for two cores, and a read through a follower needs four of their"
            f" turns. The median is {median:.2f} of classic's. Where the slowest reads wait was not found out."
        )

    def _why(self, phase: str, other: str) -> str:
        ours, theirs = self.phase(PARALLEL, phase), self.phase(other, phase)
        if ours is None or theirs is None:
            return ""
        generator_us = 1e6 * ours["generator_cores"] / ours["per_s"]
        busiest = f" (the busiest of them {ours['busiest_cores']:.2f})" if "busiest_cores" in ours else ""
        return (
            f"A request costs {ours['processor_us']:.0f} µs of processor time in the three controllers, and"
            f" {generator_us:.0f} µs in the load generator; with {NAMES[other]} it is {theirs['processor_us']:.0f} µs"
            f" in the controllers. Of the {CORES} cores the controllers used {ours['cores']:.2f}{busiest} and the"
            f" generator {ours['generator_cores']:.2f}; the rest is waiting, for the disk and for each other."
            f" [Where the leader's time goes](#where-the-time-goes) is flat: reading and writing frames, sockets, and"
            " Python's calls."
        )


_MEMORY = (
    "Python's objects are large: names, numbers and dictionaries of a group's three replicas stand in the state, those"
    " of the last heartbeats beside it, and the newest snapshot twice (in the log's file, which the strict disk keeps"
    " in memory, and for followers that lack it)."
)


def _area(place: str) -> str:
    """Specific prefixes win over general ones."""
    fits = [(len(prefix), name) for name, prefixes in AREAS.items() for prefix in prefixes if place.startswith(prefix)]
    return max(fits)[1] if fits else "other"
