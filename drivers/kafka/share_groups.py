"""Share groups (KIP-932): consumers that share partitions, and acknowledge each message by itself.

They are a preview in Kafka 4.1, and finished in 4.2. Earlier versions have them in a form that later clients can't use.
"""

from __future__ import annotations

from collections.abc import Mapping

from drivers.kafka.recipe import is_at_least

FIRST = (4, 1)
#: How long a message is a consumer's before it is given again, in ms: the least that Kafka takes is 1,000.
LOCK_MS = 5_000
#: How often a message may be given before the broker gives it up, the most that Kafka takes.
MOST_GIVEN = 10


def has_share_groups(version: str) -> bool:
    return is_at_least(version, FIRST)


def format_flags(version: str) -> tuple[str, ...]:
    """Return what formats a disk for a cluster with share groups, where the version has them."""
    return ("--feature", "share.version=1") if has_share_groups(version) else ()


def of_brokers(version: str, replicas: int, min_in_sync: int, session_ms: int) -> Mapping[str, object]:
    """Return what brokers need. ``replicas`` and ``min_in_sync``: of the topic in which they note what was
    acknowledged; ``session_ms``: how long a member may be silent."""
    if not has_share_groups(version):
        return {}
    return {
        "group.share.record.lock.duration.ms": LOCK_MS,
        "group.share.min.record.lock.duration.ms": LOCK_MS,
        "group.share.delivery.count.limit": MOST_GIVEN,
        "group.share.session.timeout.ms": session_ms,
        "group.share.min.session.timeout.ms": session_ms,
        "group.share.heartbeat.interval.ms": 1_000,
        "group.share.min.heartbeat.interval.ms": 1_000,
        "share.coordinator.state.topic.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": min_in_sync,
    }
