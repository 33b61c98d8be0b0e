"""What ``stormproof list`` names: plug-ins alone. Support that slips into a plug-in folder shows here."""

from __future__ import annotations

import pytest

from chaos import plugins
from chaos.plugins import PluginKind

#: A new plug-in is one new file, and its name here.
NAMES = {
    PluginKind.WORKLOAD: "lock queue register tier_read",
    PluginKind.FAULT: """
        bit_flip clock corruption cpu crash_loop demote descriptors disk_full duplication flapping io_hang kill
        lose_unsynced loss membership memory misdirected_write noop partition pause rate_limit read_error reordering
        reset restart restore_snapshot rolling_restart slow_close slow_disk slow_link slow_tier stop strobe switch
        switch_storm swizzle_clog sync_failure tier_answer_lost tier_expired_credentials tier_outage tier_put_failure
        tier_stale_list torn_write truncate wipe
    """,
    PluginKind.LAW: """
        agreement availability consumers durability linearizable no_rollback order roles single_uploader
        tier_continuity tier_metadata upload_bound
    """,
    PluginKind.DRIVER: "reference",
    PluginKind.DEPLOYMENT: "docker process sim ssh",
}


@pytest.mark.parametrize("kind", list(PluginKind))
def test_plugin_folders_hold_plugins_alone(kind: PluginKind) -> None:
    assert plugins.names(kind) == tuple(NAMES[kind].split())
