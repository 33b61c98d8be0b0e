"""What leaders say to followers that have all that they have: one frame for each pair of disks, whatever the number of
groups (R8).

A frame lists groups, each with its term. It renews a leader in the groups that it lists, where the term is the
receiver's own, and nowhere else: a leader that has lost one of its groups does not list that group any more, so that
the followers elect another one there. The answer says for each group whether the sender was renewed; what is refused is
no part of any majority.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from chaos.node import Env, Malformed
from reference.split.hosting.bundles import header
from reference.wire.codes import Request
from reference.wire.command import ONEWAY, Command

_BEAT = struct.Struct(">IQQQ")  # group, term, round, commit index or whether it is granted
_MS = 1_000_000


class Beat(NamedTuple):
    """A leader's word in one group, or the answer to it: then ``value`` is 1 if the leader was renewed, and 0 with the
    receiver's own term otherwise. A leader gives up to where the follower may commit."""

    group: int
    term: int
    round: int
    value: int


class Beats:
    """What this step has to say to each disk; ``answers``: about what they have said."""

    def __init__(self) -> None:
        self._beats: dict[tuple[str, bool], dict[int, Beat]] = {}

    def __bool__(self) -> bool:
        return bool(self._beats)

    def add(self, to: str, beat: Beat, *, answer: bool = False) -> None:
        """Have this said when the step ends; of several words in one group the last counts."""
        self._beats.setdefault((to, answer), {})[beat.group] = beat

    def take(self, env: Env, mark: Mapping[str, str], sender: str) -> list[tuple[str, Command]]:
        """Return the frames to send now, and whom to."""
        frames = []
        for (to, answer), beats in self._beats.items():
            fields = header(env, mark, sender, to)
            if answer:
                fields["answer"] = "1"
            body = b"".join(_BEAT.pack(one.group, one.term, one.round, one.value) for one in beats.values())
            frames.append((to, Command(code=Request.GROUPS_BEATS, flags=ONEWAY, fields=fields, body=body)))
        self._beats = {}
        return frames


def unpack_beats(body: bytes) -> Sequence[Beat]:
    """Return what a frame says. Raises :class:`chaos.node.Malformed`."""
    if len(body) % _BEAT.size:
        raise Malformed("a group's word is cut off")
    return [Beat(*numbers) for numbers in _BEAT.iter_unpack(body)]


class Clocks:
    """The wall clocks of other nodes, as each gave its own last."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[int, int]] = {}  # by node: its wall clock in ms, and our monotonic one then

    def heard(self, env: Env, node: str, wall_ms: int) -> None:
        """Take note of a node's clock. It goes on at the pace of our monotonic one, whatever our wall clock does."""
        self._heard[node] = (wall_ms, env.mono_ns())

    def median_ms(self, env: Env, nodes: Sequence[str]) -> int | None:
        """Return the median of these nodes' clocks in ms; None while most of them are unknown."""
        now = env.mono_ns()
        known = [
            wall_ms + (now - then) // _MS for wall_ms, then in (self._heard[it] for it in nodes if it in self._heard)
        ]
        if env.name in nodes:
            known.append(env.wall_ns() // _MS)
        if 2 * len(known) <= len(nodes):
            return None
        return sorted(known)[(len(known) - 1) // 2]
