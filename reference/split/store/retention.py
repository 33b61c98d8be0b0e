"""What a leader lets go: the oldest segments of each topic, by the topic's entry and by logged time.

"Now" is the median of the members' clocks, and logged time never falls: one clock alone trims nothing (R10). A limit by
size is that of a topic in one group.
"""

from __future__ import annotations

from collections.abc import Sequence

from chaos.node import Env
from reference.split.names import Topic
from reference.split.segments import SealedSegment
from reference.split.store.entries import BY_SIZE, BY_TIME, DELETED, Trim
from reference.split.store.group import Group
from reference.split.store.led import Led
from reference.split.store.machine import GroupMachine
from reference.split.view import Cluster


class Retention:
    """The trims that a store proposes for the groups that it leads; one at a time is under way for each."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._under_way: dict[int, None] = {}

    def consider(self, env: Env, led: Led, machine: GroupMachine, now_ms: int) -> None:
        """Propose the first trim that is due."""
        group = machine.group
        if group.number in self._under_way or not led.leads:
            return
        trims = (self.due(group, topic_id, group.logged_time(now_ms)) for topic_id in group.topic_ids())
        trim = next((one for one in trims if one is not None), None)
        if trim is None:
            return
        self._under_way[group.number] = None

        def ended(env: Env, outcome: object, index: int) -> None:
            self._under_way.pop(group.number, None)

        led.propose(env, trim.encode(), ended)

    def due(self, group: Group, topic_id: int, now_ms: int) -> Trim | None:
        """Return what may go of a topic at this time; None if nothing may."""
        segments, topic = group.of_topic(topic_id), self._cluster.topic_of(topic_id)
        if topic is None:
            if not self._cluster.is_deleted(topic_id):
                return None  # this view lags
            named = self._cluster.last_topic(group.names.get(topic_id, ""))
            has_commits = any(key[1] == topic_id for key in group.commits)
            if named is None or not (segments or has_commits):
                return None
            return trim_of(segments, topic_id, named.version, DELETED, now_ms)
        by_time = self.count_by_time(segments, topic, now_ms)
        by_size = self.count_by_size(segments, topic, group.kept(topic_id)[1])
        if not by_time and not by_size:
            return None
        rule = BY_TIME if by_time >= by_size else BY_SIZE
        return trim_of(segments[: max(by_time, by_size)], topic_id, topic.version, rule, now_ms)

    def count_by_time(self, segments: Sequence[SealedSegment], topic: Topic, now_ms: int) -> int:
        """Return how many of the oldest segments have only records that are old enough to go."""
        count = 0
        while topic.retain_ms and count < len(segments) and now_ms - segments[count].aged_ms >= topic.retain_ms:
            count += 1
        return count

    def count_by_size(self, segments: Sequence[SealedSegment], topic: Topic, kept_bytes: int) -> int:
        """Return how many of the oldest segments may go so that at least the limit is left. Bytes of the open tail
        count too, and each record once, wherever copies of it lie."""
        count = 0
        while topic.retain_bytes and count < len(segments) and kept_bytes - segments[count].size >= topic.retain_bytes:
            kept_bytes -= segments[count].size
            count += 1
        return count


def trim_of(segments: Sequence[SealedSegment], topic_id: int, version: int, rule: str, now_ms: int) -> Trim:
    """Return the TRIM that lets go of these segments."""
    starts: dict[int, int] = {}
    for one in segments:
        starts |= {number: after for number, (_, after) in one.ranges.items()}
    return Trim(topic_id=topic_id, version=version, rule=rule, now_ms=now_ms, starts=starts)
