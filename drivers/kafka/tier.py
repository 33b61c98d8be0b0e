"""Tiered storage (KIP-405) with the tier of Kafka's own tests: a folder that all brokers share.

A broker copies segments that are full, and below the last stable offset, to the folder; what is there is soon deleted
from its own log, and read from the folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: The least that Kafka 4 takes, and so much of each partition stays in a broker's own log.
SEGMENT_BYTES = 1_048_576
#: Where it is in the home of the broker that :func:`holder` names: nodes' homes are beside one another.
FOLDER = "tier"
_PLUGIN = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"


def holder(brokers: Sequence[str]) -> str:
    """Return the broker in whose home the tier of all is."""
    return brokers[0]


def of_brokers(brokers: Sequence[str], replicas: int) -> Mapping[str, object]:
    """Return what brokers need. ``replicas``: of the topic in which they note what is in the tier."""
    noted = "rlmm.config.remote.log.metadata.topic"
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": _PLUGIN,
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "remote.log.manager.task.interval.ms": 500,
        "rsm.config.dir": f"{{home}}/../{holder(brokers)}/{FOLDER}",
        "rsm.config.delete.on.close": "false",
        f"{noted}.num.partitions": 1,
        f"{noted}.replication.factor": replicas,
        "log.retention.check.interval.ms": 1_000,
        "log.initial.task.delay.ms": 1_000,
    }


#: Settings of the topic that is tested: nothing is too old for the tier.
OF_TOPIC: Mapping[str, object] = {
    "remote.storage.enable": "true",
    "segment.bytes": SEGMENT_BYTES,
    "local.retention.bytes": SEGMENT_BYTES,
    "retention.ms": -1,
    "retention.bytes": -1,
}
