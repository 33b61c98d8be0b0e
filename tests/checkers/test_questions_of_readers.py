"""Which questions about readers each law answers, and which test proves it; or why the question does not arise.

A cell names tests, as ``module.test``, or says why not. The tests below hold that these tests exist, and that no law
which reads answers of brokers has fewer cells than there are questions.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from chaos.judging.registry import registry
from tests.checkers.names import L

SLAVES = "are answers of slaves judged?"
HIGH, LOW = "is a bound judged that is too high?", "is a bound judged that is too low?"
HELD = "are reads judged that are held?"
CALM = "is calm time judged, and not the end alone?"
QUESTIONS = (SLAVES, HIGH, LOW, HELD, CALM)
_OURS = "test_told_to_readers"
WHY = "no: "
TABLE: dict[str, dict[str, str]] = {
    L.PROGRESS: {
        SLAVES: f"{_OURS}.test_a_slave_that_sends_its_reader_elsewhere_is_found",
        HIGH: "no: no-rollback judges ends that are too high, durability beginnings",
        LOW: f"{_OURS}.test_a_slave_whose_end_of_a_queue_is_long_past_is_found, "
        f"{_OURS}.test_a_beginning_that_was_deleted_long_ago_is_found",
        HELD: f"{_OURS}.test_a_reader_that_is_not_woken_is_found",
        CALM: f"{_OURS}.test_a_replica_that_asks_readers_to_come_again_beyond_the_bound_is_found",
    },
    L.NO_ROLLBACK: {
        SLAVES: f"{_OURS}.test_an_end_that_a_slave_showed_binds_later_masters",
        HIGH: f"{_OURS}.test_an_end_that_a_slave_showed_binds_later_masters",
        LOW: "no: a slave may lag for a while, and progress judges for how long; a master's is judged by "
        "test_no_rollback.test_slaves_and_deposed_masters_may_tell_lower_ends",
        HELD: "no: what a read gives and shows is judged, however long it took",
        CALM: "no: what was shown binds at any time",
    },
    L.DURABILITY: {
        SLAVES: f"{_OURS}.test_a_slave_that_names_a_beginning_above_what_retention_removed_is_found",
        HIGH: f"{_OURS}.test_a_slave_that_names_a_beginning_above_what_retention_removed_is_found",
        LOW: "no: nothing is lost by it; progress judges for how long it may last",
        HELD: "no: what a read gives is judged, however long it took",
        CALM: "no: what was acknowledged is owed at any time",
    },
    L.AGREEMENT: {
        SLAVES: "test_node_reads.test_copies_that_differ_diverge",
        HIGH: "no: it compares content, not bounds",
        LOW: "no: it compares content, not bounds",
        HELD: "no: what a read gives is judged, however long it took",
        CALM: "no: one offset holds one message at any time",
    },
    L.ORDER: {
        SLAVES: "test_questions_of_readers.test_the_order_of_what_a_slave_gives_is_judged",
        HIGH: "no: it judges one answer by what it was asked for",
        LOW: "no: it judges one answer by what it was asked for",
        HELD: "no: what a read gives is judged, however long it took",
        CALM: "no: it judges one answer at any time",
    },
    L.LOG: {
        SLAVES: "log.test_contents.test_what_a_slave_gives_counts_as_well",
        HIGH: "no: of bounds it takes beginnings alone, below which nothing is owed here; durability judges them",
        LOW: "no: of all beginnings that are named the highest one counts",
        HELD: "log.test_transactions.test_readers_that_a_transaction_holds_up_which_had_to_be_over",
        CALM: "no: what was committed is owed at any time",
    },
    L.ISOLATION: {
        SLAVES: "isolation.test_logs.test_what_a_slave_gives_counts_as_well",
        HIGH: "no: it judges the order of what is given, not bounds",
        LOW: "no: it judges the order of what is given, not bounds",
        HELD: "no: what a read gives is judged, however long it took",
        CALM: "no: what was read orders transactions at any time",
    },
    L.CONSUMERS: {
        SLAVES: "no: groups read at the master, which alone takes their commits",
        HIGH: "no: it judges offsets of groups, not of queues",
        LOW: "no: it judges offsets of groups, not of queues",
        HELD: "no: what a group was given is judged, however long it took",
        CALM: "no: commits bind at any time",
    },
    L.ROLES: {
        SLAVES: f"{_OURS}.test_a_living_broker_that_a_route_leaves_out_is_found_although_it_comes_back",
        HIGH: "no: routes have no bounds",
        LOW: "no: routes have no bounds",
        HELD: "no: nobody waits for a route",
        CALM: f"{_OURS}.test_a_living_broker_that_a_route_leaves_out_is_found_although_it_comes_back",
    },
    L.WATCHED_VIEWS: {
        SLAVES: f"{_OURS}.test_a_view_that_is_stale_until_somebody_asks_is_found",
        HIGH: "test_watched_views.test_what_no_prefix_of_the_log_holds_is_told",
        LOW: f"{_OURS}.test_a_view_that_is_stale_until_somebody_asks_is_found",
        HELD: "no: a view is answered at once",
        CALM: f"{_OURS}.test_a_view_that_is_stale_until_somebody_asks_is_found",
    },
    L.TIER_METADATA: {
        SLAVES: f"{_OURS}.test_a_manifest_that_a_replica_learns_of_late_is_found",
        HIGH: "test_tier.test_a_view_of_a_version_that_never_was_is_found",
        LOW: f"{_OURS}.test_a_manifest_that_a_replica_learns_of_late_is_found",
        HELD: "no: nobody waits for a manifest",
        CALM: f"{_OURS}.test_a_manifest_that_a_replica_learns_of_late_is_found",
    },
}


def named(cell: str) -> list[str]:
    """The tests that a cell names."""
    words = cell.removeprefix(WHY).replace(",", " ").split()
    return [word for word in words if "test_" in word and "." in word]


def test_each_cell_names_a_test_that_there_is_or_says_why_not() -> None:
    for law, cells in TABLE.items():
        assert set(cells) == set(QUESTIONS), law
        for question, cell in cells.items():
            assert named(cell) or len(cell.removeprefix(WHY)) > 20, (law, question)
            for name in named(cell):
                module, _, test = name.rpartition(".")
                assert (Path(__file__).parent / f"{module.replace('.', '/')}.py").is_file(), name
                assert callable(getattr(importlib.import_module(f"tests.checkers.{module}"), test, None)), name


def test_each_law_that_reads_what_readers_are_answered_is_in_the_table() -> None:
    answers = {"pull", "delivered", "bounds", "view", "route", "tier_view"}
    reading = {
        kernel.promise.name
        for kernel in registry().kernels.values()
        for reads in kernel.needs.rows
        if answers & set(reads.f) and not reads.sieve
    }
    # Of those left out the answers only tell what the tier returned, what a client library gave to groups, or whom name
    # servers name as the owners of slices.
    assert reading - set(TABLE) <= {L.TIER_CONTINUITY, L.DELIVERIES, L.UPLOAD_BOUND, L.PLACEMENT}


def test_the_order_of_what_a_slave_gives_is_judged() -> None:
    from tests.checkers.histories import History
    from tests.checkers.names import A

    history = History()
    for sequence in range(3):
        history.send(sequence)
    history.pull(0, 0, 2, node="broker-1", from_="broker-1", offsets=(0, 2))
    history.expect(L.ORDER, A.CONSUMER_REORDER)
