"""Each subject has choices of its own, and all of them go another way from a moment on."""

from __future__ import annotations

from chaos.draws import Draws


def test_what_one_subject_draws_changes_nothing_for_another() -> None:
    one, other = Draws(1), Draws(1)
    one.of("a").random()
    assert one.of("b").random() == other.of("b").random() != other.of("a").random()


def test_a_renewal_reaches_the_generators_that_there_are_and_those_to_come() -> None:
    draws, fresh, unchanged = Draws(1), Draws("another"), Draws(1)
    old = draws.of("a")
    old.random()
    draws.renew("another")
    assert old.random() == fresh.of("a").random() != unchanged.of("a").random()
    assert draws.of("b").random() == fresh.of("b").random() != unchanged.of("b").random()
