"""What the reference nodes trace, in the order of ``docs/history.md``: each event, and when it is traced."""

from __future__ import annotations

from collections.abc import Mapping

EVENTS: Mapping[str, str] = {
    "start": "a broker, or the object store, started",
    "damaged": "a broker found less on its disk than the disk had been sure to hold",
    "recovered": "a broker has read its log after a start",
    "append": "a broker appended a record to its log",
    "truncate": "a broker cut records off the end of its log",
    "synced": "more of a broker's log is durable on its disk",
    "confirm": "the confirm offset of a broker changed",
    "role": "a broker became master, slave or fenced, in a new epoch or in the same one",
    "set": "a master knows of another SyncStateSet, or has proposed one",
    "acked": "a master gave producers their ok",
    "commit": "the offset of a consumer group took effect on a broker",
    "retention": "a broker deleted old messages from its log",
    "bootstrap_begun": "a slave begins anew: its old log goes from here on",
    "bootstrap": "a slave has durably begun anew, without its old log",
    "tier_request": "a broker sent a request to the object store",
    "tier_commit": "a master sent the compare-and-set of a manifest",
    "tier_view": "a broker holds a new version of a manifest",
    "tier_stop": "a master stopped the uploads of a queue for good",
    "tier_cut": "a master found that the log contradicts the tier, and cuts the manifest back",
    "raft": "a controller became follower, candidate or leader",
    "vote": "a controller has given a candidate its vote, which is on its disk",
    "term_raised": "a controller took over the later term of a candidate that asked for its vote",
    "applied": "a controller applied a committed entry: an election, a changed set, a registration",
    "members": "a controller applied a change of the controllers' members",
    "entries_cut": "a controller dropped the end of its log, which its leader's log lacks",
    "metadata": "a controller applied a change of the metadata: a topic, a route, a group, an owner of offsets",
    "route": "a name server would name another master, or other brokers, to clients",
    "store_put": "the object store has stored an object, or had it already",
    "store_cas": "the object store has replaced a manifest, or refused to",
    "store_get": "the object store was asked for an object",
    "store_list": "the object store was asked for a list of objects",
    "store_delete": "the object store has deleted an object",
    "tier_fault": "the object store handled a request wrongly, as a fault of the tier demands",
}
