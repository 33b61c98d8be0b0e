"""A leader that is elected goes on behind what was acknowledged before."""

from __future__ import annotations

from chaos.verdict import Validity
from tests.checkers.histories import content, m
from tests.checkers.log.logs import Logs, X, Y, check, judged, violations
from tests.checkers.log.test_profiles import WEAK, power_cut

FOUND = "elected-without-acknowledged"


def elected(*offsets: int, node: str = "broker-1", epoch: int = 2, queue: int = X) -> Logs:
    """Three messages are acknowledged by broker-0, and others by another leader, at these offsets."""
    history = Logs().put((0, 0), (1, 1), (2, 2))
    for number, offset in enumerate(offsets, 3):
        process = f"other-{number}.0"
        history.send(number, offset, queue=queue, node=node, epoch=epoch, process=process)
    return history


def at_once() -> Logs:
    """A message that was under way when another leader acknowledged one behind it."""
    history, message = Logs().put((0, 0)), m(2)
    op = history.invoke("send", process="slow.0", queue=X, message=message, hash=content(message))
    history.send(1, 2, process="other.0", node="broker-1", epoch=2)
    history.complete(op, "ok", offset=1, node="broker-0", epoch=1)
    return history


def test_a_leader_that_lacks_what_was_acknowledged() -> None:
    again = elected(3).tried(7)
    again.send(7, 1, node="broker-1", epoch=2, process="other.0")  # of the earlier attempt, which another one stored
    check(
        bad=[(elected(1).read_all((0, 0), (1, 3)), [FOUND, "inconsistent-offsets", "lost-write", "unseen"])],
        good=[
            elected(3, 4).read_all((0, 0), (1, 1), (2, 2), (3, 3), (4, 4)),
            at_once().read_all((0, 0), (1, 2), (2, 1)),
            elected(0, queue=Y).read_all((0, 0), (1, 1), (2, 2)).read_all((0, 3), queue=Y),
        ],
    )
    assert FOUND not in violations(again.read_all((0, 0), (1, 1), (2, 2)))


def test_the_same_node_in_a_later_epoch_was_elected_again() -> None:
    assert FOUND in violations(elected(2, node="broker-0"))
    assert FOUND not in violations(elected(2, node="broker-0", epoch=1))
    assert FOUND not in violations(elected(2, node="", epoch=-1))
    assert FOUND in violations(elected(2, node="broker-1", epoch=-1))


def test_it_says_who_lacked_what_once_for_each_election() -> None:
    (found,) = [one for one in judged(elected(1, 2)).anomalies if one.name == FOUND]
    assert found.explanation.startswith("broker-0 (epoch 1) acknowledged Message 0/2 at offset 2 of queue 0 by ")
    assert "then broker-1 (epoch 2) put Message 0/3" in found.explanation and found.offset == 2
    assert len(found.rows) == 4 and [*found.rows] == sorted(found.rows)


def test_what_the_profile_lets_be_lost_is_not_missed() -> None:
    history = Logs().put((0, 0))
    history.wait(5)
    power_cut(history.put((1, 1))).send(2, 1, node="broker-1", process="other.0")
    verdict = judged(history.poll({X: [(0, 0), (1, 2)]}).read_all((0, 0), (1, 2)), WEAK)
    assert verdict.validity is Validity.VALID, verdict
