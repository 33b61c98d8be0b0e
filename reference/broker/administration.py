"""The requests of administrators that change nothing, by their codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from chaos.node import Env
from reference.broker.group_admin import GroupAdmin
from reference.broker.parts import Refused
from reference.broker.topic_admin import QueueViews, TopicAdmin
from reference.wire.codes import Request, Response
from reference.wire.command import Command
from reference.wire.properties import FIXED, properties

_Handler = Callable[[Env, str, Command], None]


def administration(views: QueueViews, options: Mapping[str, Any]) -> dict[int, _Handler]:
    """Return the handlers of a broker with these queues."""
    topics, groups = TopicAdmin(views), GroupAdmin(views)

    def config(env: Env, source: str, message: Command) -> None:
        """26: the options that the broker was started with."""
        env.send(source, message.reply(body=properties({"brokerName": views.group, **options})))

    return {
        Request.GET_ALL_TOPIC_CONFIG: topics.all_configs,
        Request.UPDATE_BROKER_CONFIG: _refuse_options,
        Request.GET_BROKER_CONFIG: config,
        Request.GET_ALL_SUBSCRIPTION_GROUPS: groups.all_configs,
        Request.GET_TOPIC_STATS: topics.stats,
        Request.GET_CONSUMER_CONNECTIONS: groups.consumers,
        Request.GET_PRODUCER_CONNECTIONS: groups.producers,
        Request.GET_CONSUME_STATS: groups.stats,
        Request.QUERY_GROUPS_OF_TOPIC: topics.groups,
        Request.GET_SYSTEM_TOPICS: topics.of_system,
        Request.GET_BROKER_CONSUME_STATS: groups.all_stats,
        Request.QUERY_CONSUME_QUEUE: topics.entries,
        Request.GET_ALL_PRODUCERS: groups.all_producers,
        Request.QUERY_TOPICS_OF_GROUP: groups.topics,
        Request.QUERY_SUBSCRIPTION_OF_GROUP: groups.subscription,
        Request.GET_TOPIC_CONFIG: topics.config,
        Request.GET_SUBSCRIPTION_GROUP: groups.config,
    }


def _refuse_options(env: Env, source: str, message: Command) -> None:
    """25."""
    raise Refused(Response.NO_PERMISSION, FIXED)
