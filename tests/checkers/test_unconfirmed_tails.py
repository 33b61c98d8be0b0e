"""What an old master never confirmed may be confirmed by an unclean election, in place of what was confirmed meanwhile
in a newer epoch; and by nothing else."""

from __future__ import annotations

import pytest

from chaos.verdict import Validity
from tests.checkers.histories import SIZE
from tests.checkers.names import A, L
from tests.checkers.test_losses import Cluster

BOTH = 2 * SIZE
#: What is found where replicas confirmed both.
TAKEN = {A.REPLICA_DIVERGENCE, A.ROLLBACK, A.CONFIRM_ROLLBACK}


def holds(cluster: Cluster, node: str, sequence: int, epoch: int) -> None:
    """The replica appends a message at offset 1, in place of what stood there."""
    cluster.trace(node, "truncate", position=SIZE, epoch=epoch, value={"old_end": BOTH})
    cluster.append(node, sequence, 1, epoch=1 if sequence == 1 else 2)
    cluster.confirm(node, BOTH, epoch)


def led_on(before: str = "", *, profile: bool = True) -> Cluster:
    """broker-0, master of epoch 1, alone has message 1 at offset 1, of which this much was known before epoch 2, in
    which the others have message 2 there."""
    cluster = Cluster().begin({"unclean": profile})
    cluster.append("broker-0", 1)
    if before == "confirmed":
        cluster.confirm("broker-0", BOTH, 1)
    if before == "acknowledged":
        cluster.send(1)
    if before == "read":
        cluster.pull(1, 1)
    cluster.elected("broker-1", 2, previous=["broker-0", "broker-1"])
    cluster.master("broker-1", 2, start=SIZE)
    for node in ("broker-1", "broker-2"):
        holds(cluster, node, 2, 2)
    cluster.pull(1, 2, node="broker-1", epoch=2)
    return cluster


def leads_again(cluster: Cluster, *, unclean: bool) -> Cluster:
    """broker-0 is master of epoch 3, with message 1, which everybody has from then on."""
    in_sync = ["broker-1", "broker-2"] if unclean else ["broker-0", "broker-1", "broker-2"]
    cluster.elected("broker-0", 3, previous=in_sync, unclean=unclean)
    cluster.master("broker-0", 3, start=BOTH)
    cluster.confirm("broker-0", BOTH, 3)
    cluster.pull(1, 1, node="broker-0", epoch=3)
    for node in ("broker-1", "broker-2"):
        holds(cluster, node, 1, 3)
    return cluster


def found(cluster: Cluster) -> set[str]:
    cluster.finish(0, 1, epoch=4)
    verdicts = [cluster.verdict(law) for law in (L.AGREEMENT, L.NO_ROLLBACK)]
    names = {anomaly.name for verdict in verdicts for anomaly in verdict.anomalies}
    assert {verdict.validity for verdict in verdicts} <= {Validity.VALID, Validity.INVALID}
    assert any(verdict.counts.get("permitted_by_policy") for verdict in verdicts) or names
    return names


def test_an_unclean_election_confirms_it() -> None:
    assert found(leads_again(led_on(), unclean=True)) == set()


@pytest.mark.parametrize("profile", [True, False])
def test_no_clean_election_does(profile: bool) -> None:
    assert found(leads_again(led_on(profile=profile), unclean=False)) == TAKEN


@pytest.mark.parametrize(
    ("before", "names"),
    [
        ("confirmed", TAKEN),
        ("acknowledged", {A.OFFSET_CONFLICT}),
        ("read", {A.OFFSET_CONFLICT, A.ROLLBACK}),
    ],
)
def test_it_explains_nothing_that_was_told_before_the_newer_epoch(before: str, names: set[str]) -> None:
    """Then one of the two was taken away by the election of epoch 2, which was a clean one."""
    assert found(leads_again(led_on(before), unclean=True)) == names


@pytest.mark.parametrize("epoch", [3, 4])
def test_what_is_gone_since_does_not_come_back(epoch: int) -> None:
    cluster = leads_again(led_on(), unclean=True)
    if epoch == 4:
        cluster.elected("broker-1", 4, previous=["broker-0", "broker-1", "broker-2"])
        cluster.master("broker-1", 4, start=BOTH)
    cluster.pull(1, 2, node="broker-1", epoch=epoch)
    assert found(cluster) == {A.OFFSET_CONFLICT, A.ROLLBACK}


def test_an_election_of_which_nobody_knows_leaves_it_open() -> None:
    cluster = led_on()
    cluster.master("broker-0", 3, start=BOTH)
    for node in ("broker-0", "broker-1", "broker-2"):
        holds(cluster, node, 1, 3)
    cluster.finish(0, 1, epoch=3)
    assert cluster.verdict(L.AGREEMENT).validity is Validity.UNKNOWN
