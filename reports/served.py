"""When somebody was served, from moments that come in any order: stretches are kept, single moments are not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]

#: A queue or a client counts as not served when nothing was acknowledged for longer than this, in seconds.
OUTAGE_S = 1.0
#: So many sends without an acknowledgement are held; of more, the first of each client in so many seconds.
HELD, APART_S = 1 << 18, 0.25
#: No moment is later.
_LAST = float(np.finfo(np.float64).max)


def merged(start: Seconds, end: Seconds) -> tuple[npt.NDArray[np.int64], Seconds]:
    """Return, of stretches in the order of ``start``, those that begin more than :data:`OUTAGE_S` after all before them
    have ended, by their places; and where what begins with each of these ends."""
    until = np.maximum.accumulate(end)
    begins = np.flatnonzero(np.append(True, start[1:] - until[:-1] > OUTAGE_S)[: len(start)])
    return begins, until[np.append(begins[1:], len(start)) - 1] if len(begins) else until


class Stretches:
    """Of one queue or client the stretches of moments of which none is more than a second after the one before.
    ``since``: when what ended with the first moment of each had been asked for."""

    def __init__(self) -> None:
        self.start = self.end = self.since = np.empty(0)

    @property
    def nbytes(self) -> int:
        return 3 * self.start.nbytes

    def add(self, start: Seconds, end: Seconds, since: Seconds) -> None:
        """Take others, or moments, which end as they start."""
        start, end = np.append(self.start, start), np.append(self.end, end)
        order = np.argsort(start, kind="stable")
        begins, self.end = merged(start[order], end[order])
        self.start, self.since = start[order][begins], np.append(self.since, since)[order][begins]

    def between(self, moments: Seconds) -> npt.NDArray[np.bool_]:
        """Return which of these lie outside of all stretches."""
        place = np.searchsorted(self.start, moments, side="left") - 1
        within = np.append(self.end, -np.inf)[place] > moments
        return ~(within & (place >= 0))


class Outages:
    """Per queue, when no send was acknowledged for more than a second."""

    def __init__(self) -> None:
        self._queues: dict[int, Stretches] = {}

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self._queues.values())

    def add(self, queue: npt.NDArray[Any], second: Seconds) -> None:
        for one in np.unique(queue).tolist():
            mine = second[queue == one]
            self._queues.setdefault(one, Stretches()).add(mine, mine, mine)

    def merge(self, other: Outages) -> None:
        """Take what was added to another."""
        for queue, served in other._queues.items():
            self._queues.setdefault(queue, Stretches()).add(served.start, served.end, served.since)

    def gaps(self, end_s: float) -> list[tuple[int, float, float]]:
        """Return (queue, from, to) of each stretch without service, for each queue that was ever served, from the
        beginning to ``end_s``."""
        found = []
        for queue, served in sorted(self._queues.items()):
            edges = np.sort(np.array([0.0, end_s]))
            whole = Stretches()
            whole.add(served.start, served.end, served.since)
            whole.add(edges, edges, edges)
            found += [(queue, float(a), float(b)) for a, b in zip(whole.end[:-1], whole.start[1:], strict=True)]
        return found


class Waits:
    """Per client, when it had asked for sends and none was acknowledged for more than a second.

    Exact for clients that wait for each answer. One that has several sends under way is taken to have asked no earlier
    than it was last answered."""

    def __init__(self, clients: Sequence[str]) -> None:
        self._names = [*clients]
        self._clients: dict[int, Stretches] = {}
        #: Sends that ended without an acknowledgement while their client was not served: client, when, since when.
        self._others = (np.empty(0, np.int64), np.empty(0), np.empty(0))

    @property
    def nbytes(self) -> int:
        return sum(one.nbytes for one in self._clients.values()) + sum(one.nbytes for one in self._others)

    def add(self, client: npt.NDArray[Any], second: Seconds, since: Seconds, ok: npt.NDArray[np.bool_]) -> None:
        for one in np.unique(client[ok]).tolist():
            mine = ok & (client == one)
            self._clients.setdefault(one, Stretches()).add(second[mine], second[mine], since[mine])
        self._add_others(client[~ok].astype(np.int64), second[~ok], since[~ok])

    def merge(self, other: Waits) -> None:
        """Take what was added to another, of clients with these or other names."""
        self._names += [name for name in other._names if name not in self._names]
        number = {name: at for at, name in enumerate(self._names)}
        mine = np.array([number[name] for name in other._names], np.int64)
        for client, served in other._clients.items():
            known = self._clients.setdefault(int(mine[client]), Stretches())
            known.add(served.start, served.end, served.since)
        whose, second, since = other._others
        self._add_others(mine[whose], second, since)

    def _add_others(self, *new: npt.NDArray[Any]) -> None:
        self._others = tuple(map(np.append, self._others, new))  # type: ignore[assignment]
        self._keep(self._open())
        if len(self._others[0]) > HELD:
            self._keep(self._first())

    def _keep(self, chosen: npt.NDArray[Any]) -> None:
        client, second, since = (column[chosen] for column in self._others)
        self._others = (client, second, since)

    def _open(self) -> npt.NDArray[np.bool_]:
        client, second, _ = self._others
        found = np.ones(len(client), np.bool_)
        for one in np.unique(client).tolist():
            if one in self._clients:
                mine = np.flatnonzero(client == one)
                found[mine] = self._clients[one].between(second[mine])
        return found

    def _first(self) -> npt.NDArray[np.int64]:
        """Return the places of the first send of each client in each quarter of a second."""
        client, second, _ = self._others
        order = np.lexsort((second, client))
        apart = np.floor(second[order] / APART_S)
        new = (client[order][1:] != client[order][:-1]) | (apart[1:] != apart[:-1])
        return order[np.append(True, new)[: len(order)]]

    def gaps(self, end_s: float) -> list[tuple[str, float, float]]:
        """Return (client, from, to) of each wait."""
        found = []
        client, second, since = self._others
        for one in sorted({*self._clients, *np.unique(client).tolist()}):
            mine = np.flatnonzero(client == one)
            mine = mine[np.argsort(second[mine], kind="stable")]
            served = self._clients.get(one, Stretches())
            ended, until = np.append(-np.inf, served.end), np.append(served.start, np.inf)
            first = np.searchsorted(second[mine], ended, side="right")
            asked = np.append(since[mine], np.inf)[first]
            unanswered = np.append(second[mine], np.inf)[first] <= np.minimum(until, _LAST)
            asked = np.where(unanswered, asked, np.append(served.since, np.inf))
            asked, until = np.maximum(asked, ended), np.minimum(until, end_s)
            long = np.flatnonzero(until - asked > OUTAGE_S)
            found += [(self._names[one], float(asked[at]), float(until[at])) for at in long.tolist()]
        return found
