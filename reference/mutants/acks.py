"""Planted bugs of what slaves acknowledge, that another copy or a weaker promise hides, and of whose copies count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaos.node import Env
from reference.broker.replication import ReplicatedBroker, Replication
from reference.broker.slave_replication import SlaveReplication
from reference.mutants._planted import Planted
from reference.wire.codes import Request
from reference.wire.command import ONEWAY, Command


class _AcksWhatItTook(SlaveReplication):
    """A slave acknowledges records as soon as it has written them, before its disk holds them."""

    def _take(self, env: Env, message: Command) -> None:
        super()._take(env, message)
        fields = {"session": self._session_word} | {key: str(self._broker.log.end) for key in ("position", "end")}
        env.send(self.master, Command(code=Request.REPLICA_ACK, flags=ONEWAY, fields=fields))


class AcksWhatItTook(Replication):
    def __init__(self, broker: ReplicatedBroker, options: Mapping[str, Any]) -> None:
        super().__init__(broker, options)
        self.slave = _AcksWhatItTook(broker, self)


class AcksByMajority(Replication):
    """Producers get their ok once a majority of the group's three replicas has the message, whatever they asked for."""

    def acknowledged_end(self) -> int:
        ends = [self.own_end(), *(peer.acked for peer in self.master.streaming_peers())]
        return sorted(ends, reverse=True)[1] if len(ends) > 1 else -1


MUTANTS = (
    Planted(
        name="acks-what-it-took",
        law="in-sync",
        stands_for="a follower that acknowledges from its page cache, where the leader's own copy suffices",
        parts={"broker": {"replication": AcksWhatItTook}},
        scenario="ack_by_master_alone",
    ),
    Planted(
        name="acks-by-majority",
        law="availability",
        stands_for="DLedger's own commit log: an acknowledgement waits for a majority, also where one copy suffices",
        parts={"broker": {"replication": AcksByMajority}},
        scenario="acks_of_one",
    ),
)
