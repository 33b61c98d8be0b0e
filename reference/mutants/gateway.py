"""Planted bugs of the gateway, which no simulated cluster has: a real store is outside of it.

So they are no part of :data:`reference.mutants.MUTANTS`, whose bugs the simulator shows. ``tests/reference`` runs them
on processes.
"""

from __future__ import annotations

from reference.mutants._planted import NODE, Planted
from reference.objectstore.asking import ANY, CONDITION
from reference.objectstore.gateway import Gateway, Seen
from reference.objectstore.serving import Ask
from reference.wire.codes import Response
from reference.wire.command import Command

ROLE = "gateway"


class ComparesNothing(Gateway):
    """A compare-and-set writes whatever stands there."""

    def fits(self, ask: Ask, found: Seen | None) -> bool:
        return True

    def condition(self, ask: Ask, found: Seen | None) -> dict[str, str]:
        return {CONDITION: ANY} if ask.verb == "cas" else super().condition(ask, found)


class TroubleTakenForSuccess(Gateway):
    """A write counts as done when it was sent: the store's trouble is taken for a slow answer."""

    def has_taken(self, answer: Command) -> bool:
        return answer.code in (Response.SUCCESS, Response.SYSTEM_ERROR)


MUTANTS = (
    Planted(
        name="gateway-compares-nothing",
        law="single-uploader",
        stands_for="a put without If-Match: S3 had no other one before November 2024, and the last writer wins",
        parts={ROLE: {NODE: ComparesNothing}},
    ),
    Planted(
        name="gateway-trouble-taken-for-success",
        law="tier-metadata",
        stands_for="an upload that is fired and forgotten: what a 503 refused is believed to be stored",
        parts={ROLE: {NODE: TroubleTakenForSuccess}},
    ),
)
