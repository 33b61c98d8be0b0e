"""Which comparisons laws make, and in which directions: what one source has and the other lacks, and the other way
round. A cell names the test that proves it, as ``module.test``, or says why the question does not arise."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.checkers.test_questions_of_readers import WHY, named

TABLE: dict[str, dict[str, str]] = {
    "topics: what clients asked for ↔ what name servers answer": {
        "asked for, and not there": "test_topics.test_a_topic_that_is_not_there_or_lacks_a_queue_is_lost",
        "there, and not asked for": "test_topics.test_a_topic_with_more_queues_than_anybody_asked_for_is_found",
        "deleted, and there": "test_topics.test_a_topic_that_was_deleted_and_is_there_has_returned",
    },
    "topics: what clients asked for ↔ what the last master lists": {
        "asked for, and not listed": "test_topics."
        "test_a_topic_that_the_last_master_does_not_list_is_lost_though_clients_are_told_of_it",
        "listed, and not asked for": "test_topics.test_a_topic_that_nobody_asked_for_or_that_was_refused_is_found",
        "deleted, and listed": "test_topics."
        "test_a_deleted_topic_that_the_last_master_lists_has_returned_though_clients_are_told_that_it_is_gone",
    },
    "topics, offsets of groups: one replica ↔ another": {
        "either has what the other lacks": "test_agreement.test_replicas_of_one_log_derive_the_same_offsets, "
        "test_agreement.test_a_group_that_all_replicas_have_forgotten_is_found",
    },
    "tier: manifests that the store applied ↔ manifests after the run": {
        "applied, and not there": "test_tier."
        "test_an_applied_manifest_is_there_in_the_end_if_the_store_was_read_to_its_end",
        "there, and never applied": "test_tier.test_a_view_of_a_version_that_never_was_is_found",
    },
    "consumers: commits ↔ what replicas know after the run": {
        "committed, and not known": "test_clients."
        "test_a_commit_that_the_last_master_has_forgotten_is_found_though_nobody_asks",
        "known, and not committed": "test_known_offsets."
        "test_an_offset_that_a_replica_has_and_nobody_committed_is_found",
    },
    "consumers: commits ↔ what a group is given": {
        "committed, and not given": "test_clients.test_a_group_that_is_forgotten_is_found",
        "given, and not committed": "test_clients.test_a_group_is_given_nothing_that_it_never_committed",
    },
    "consumers: commits ↔ the end of the queue": {
        "beyond the end": "test_clients.test_a_commit_beyond_the_end_is_found",
        "short of the end": "no: a group may read as slowly as it likes",
    },
}


def test_each_cell_names_a_test_that_there_is_or_says_why_not() -> None:
    for comparison, cells in TABLE.items():
        for direction, cell in cells.items():
            assert named(cell) or (cell.startswith(WHY) and len(cell) > 20 + len(WHY)), (comparison, direction)
            for name in named(cell):
                module, _, test = name.partition(".")
                assert (Path(__file__).parent / f"{module}.py").is_file(), name
                assert callable(getattr(importlib.import_module(f"tests.checkers.{module}"), test, None)), name


def test_each_comparison_is_asked_in_two_directions_or_more() -> None:
    assert all(len(cells) > 1 or "either" in next(iter(cells)) for cells in TABLE.values())
