"""Containers do most things as processes do, by the same code: in the short suite a few show it."""

from __future__ import annotations

import pytest

#: Those whose way to a node is the engine's own, or the kernel's.
SHORT = {
    "test_a_kill_loses_what_was_not_synced_and_keeps_what_was",
    "test_a_paused_node_is_silent_until_it_is_resumed",
    "test_a_one_way_cut_lets_the_request_in_and_no_answer_out",
    "test_a_wiped_node_starts_empty",
    "test_an_added_node_reaches_all_and_all_reach_it_under_the_rules_that_stand",
    "test_a_node_that_fails_by_itself_is_a_crash",
    "test_nodes_learn_nothing_of_a_probe",
}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        drawn = getattr(item, "callspec", None)
        in_containers = drawn is not None and drawn.params.get("world") == "docker"
        if in_containers and getattr(item, "originalname", "") not in SHORT:
            item.add_marker(pytest.mark.full)
