"""What ``stormproof list`` names: plug-ins alone. Support that slips into a plug-in folder shows here."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from chaos import plugins
from chaos.plugins import PluginKind
from stormproof import cli
from stormproof.commands import _console
from stormproof.commands.list import _lines

#: A new plug-in is one new file, and its name here.
NAMES = {
    PluginKind.WORKLOAD: """
        lease_lock library limits lock metadata operator program queue register tail tier_read topics
    """,
    PluginKind.FAULT: """
        bit_flip clock corruption cpu crash_loop demote descriptors disk_full duplication flapping io_hang kill
        leader_transfer lose_unsynced loss member_change membership memory misdirected_write noop partition pause
        rate_limit read_error reordering reset restart restore_snapshot rolling_restart slow_close slow_disk slow_link
        slow_tier stop strobe switch switch_storm swizzle_clog sync_failure tier_answer_lost tier_expired_credentials
        tier_outage tier_put_failure tier_stale_list torn_write truncate wipe
    """,
    PluginKind.LAW: """
        agreement answers availability consumers controllers deliveries durability in_sync linearizable no_rollback
        order progress roles single_uploader tier_continuity tier_metadata topics upload_bound watched_views
    """,
    PluginKind.DRIVER: "etcd reference rocketmq",
    PluginKind.DEPLOYMENT: "attach docker netns process sim ssh",
    PluginKind.GOAL: """
        answer_a_term_late controller_caught_up_by_snapshot controller_far_behind controller_restarted_from_snapshot
        crash_while_slow election_between_put_and_commit election_during_bootstrap epoch_skipped
        group_silent_through_a_switch group_without_master orphan_collected read_from_tier read_under_a_lease
        records_lost_in_a_crash replica_damaged retention_during_bootstrap
        send_of_unknown_outcome slow_replica_left_the_set stale_set_refused
        switch_named_a_lagging_replica term_ended_over_slow_links tier_trimmed two_believers
        unconfirmed_tail_truncated upload_after_a_long_outage
    """,
}


@pytest.mark.parametrize("kind", list(PluginKind))
def test_plugin_folders_hold_plugins_alone(kind: PluginKind) -> None:
    assert plugins.names(kind) == tuple(NAMES[kind].split())


def test_the_overview_names_every_plugin_and_says_what_it_is() -> None:
    for kind in PluginKind:
        told = plugins.summaries(kind)
        assert tuple(told) == plugins.names(kind)
        assert dict(told) == {one.name: one.summary for one in plugins.describe(kind)}


@pytest.mark.parametrize("kind", ["", "workloads", "faults", "laws", "mutants"])
def test_a_list_is_readable_at_60_columns(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each name whole, on one line with nothing but the summary."""
    monkeypatch.setattr(_console, "out", lambda: Console(width=60))
    assert cli._run(["list", *filter(None, [kind])]) == 0
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert max(map(len, lines)) <= 60
    if kind == "mutants":
        known = [mutant.name for driver in NAMES[PluginKind.DRIVER].split() for mutant in plugins.mutants(driver)]
    else:
        known = " ".join(words for one, words in NAMES.items() if kind in ("", f"{one}s")).split()
    assert set(known) <= {line.split()[0] for line in lines if line}


def test_defaults_are_shown_as_a_file_says_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli._run(["list", "faults"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "away_from=[brokers]" in told and "Peers." not in told
    assert cli._run(["list", "faults", "--json"]) == 0
    (partition,) = (one for one in json.loads(capsys.readouterr().out) if one["name"] == "partition")
    assert next(one["default"] for one in partition["options"] if one["name"] == "away_from") == ["brokers"]


def test_a_broken_plugin_says_once_that_it_is_broken() -> None:
    entry = {"name": "kafka", "error": "driver 'kafka' is broken: kafka.py: KeyError: 'x is broken: y'"}
    assert _lines("drivers", entry) == ["[red]broken[/]: kafka.py: KeyError: 'x is broken: y'"]
    assert _lines("drivers", {"name": "kafka", "error": "nobody knows"}) == ["[red]broken[/]: nobody knows"]
