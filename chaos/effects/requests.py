"""Rules on requests: what happens to what clients ask nodes, by the kind of the request.

They are carried out where a client's connection is read frame by frame (:mod:`chaos.frames`), in the direction in which
it asks: a rule from clients to a node hits their requests and the node's answers to these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class OnRequests:
    """Hits each request of these kinds (as the driver calls them; none: all that have a name) with this probability, in
    1/1000."""

    kinds: Sequence[str] = ()
    per_mille: int = 1000


@dataclass(frozen=True, slots=True)
class LoseAnswers(OnRequests):
    """The node does what is asked, and its answer is lost: with the connection if that ``breaks``; otherwise nothing
    comes. Where answers come in the order of the requests, none follows on the same connection, either."""

    breaks: bool = False


@dataclass(frozen=True, slots=True)
class RefuseRequests(OnRequests):
    """The client gets an error of the system's own; the node never hears of the request."""


@dataclass(frozen=True, slots=True)
class DelayAnswers(OnRequests):
    """The answer comes ``delay_ns`` later. Others overtake it where they have numbers, and else wait behind it. Once no
    such rule stands any more, what waits goes on at once."""

    delay_ns: int = 0


@dataclass(frozen=True, slots=True)
class SwallowRequests(OnRequests):
    """The request never arrives, and nothing comes back; the connection stays. Where answers come in the order of the
    requests, nothing else gets through on the same connection, either."""


#: All that a rule may do to requests, by name.
ACTIONS = {action.__name__: action for action in (LoseAnswers, RefuseRequests, DelayAnswers, SwallowRequests)}
#: Rules that stand on one way, by id in the order in which they were put up.
Standing = Sequence[tuple[str, OnRequests]]


def struck(standing: Standing, kind: str, rng: Random, *those: type[OnRequests]) -> tuple[str, OnRequests] | None:
    """Return the first rule that hits a request of this kind and does one of ``those`` things, with its id."""
    for rule_id, action in standing:
        named = kind and (not action.kinds or kind in action.kinds)
        if named and isinstance(action, those) and rng.random() * 1000 < action.per_mille:
            return rule_id, action
    return None
