"""The two clocks of a simulated machine."""

from __future__ import annotations

from random import Random

from chaos.deployments._sim.loop import VirtualLoop

#: Virtual time begins here; each machine's wall clock is off by a few milliseconds.
WALL_EPOCH_NS = 1_767_225_600 * 1_000_000_000
WALL_ERROR_NS = 5_000_000
DRIFT_PPM = 50


class Clock:
    """A machine's two clocks: monotonic, with drift, and wall, which can also jump."""

    def __init__(self, loop: VirtualLoop, rng: Random) -> None:
        self._loop = loop
        self._usual_ppm = rng.randint(-DRIFT_PPM, DRIFT_PPM)
        self._ppm = self._usual_ppm
        self._base_ns = rng.randint(1, 10**13)
        self._since_ns = loop.now_ns
        self._wall_offset_ns = WALL_EPOCH_NS - self._base_ns + rng.randint(-WALL_ERROR_NS, WALL_ERROR_NS)
        self._jumped_ns = 0

    def mono_ns(self) -> int:
        passed_ns = self._loop.now_ns - self._since_ns
        return self._base_ns + passed_ns + passed_ns * self._ppm // 1_000_000

    def wall_ns(self) -> int:
        return self.mono_ns() + self._wall_offset_ns + self._jumped_ns

    def true_ns(self, delay_ns: int) -> int:
        """Return how long this clock takes to show that ``delay_ns`` have passed."""
        return max(0, delay_ns) * 1_000_000 // (1_000_000 + self._ppm)

    def skew(self, *, jump_ns: int, drift_ppm: int) -> None:
        """Jump from where the wall clock is now; drift by this much beyond the usual."""
        self._base_ns, self._since_ns = self.mono_ns(), self._loop.now_ns
        self._jumped_ns += jump_ns
        self._ppm = max(-900_000, self._usual_ppm + drift_ppm)

    def reset(self) -> None:
        self.skew(jump_ns=-self._jumped_ns, drift_ppm=0)
