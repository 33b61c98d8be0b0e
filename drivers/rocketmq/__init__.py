"""Apache RocketMQ 5 in controller mode: name servers, controllers, and groups of replicated brokers."""

from drivers._java.recipes import RECIPES, recipe
from drivers.rocketmq.driver import Options, create
from drivers.rocketmq.scrubber import RocketMQScrubber

#: For ``stormproof scrub``.
SCRUBBER = RocketMQScrubber()

__all__ = ["RECIPES", "SCRUBBER", "Options", "create", "recipe"]
