"""Apache Kafka in KRaft mode: brokers that replicate partitions, and controllers that elect their leaders."""

from drivers.kafka.driver import Options, create
from drivers.kafka.recipe import RECIPES, recipe

__all__ = ["RECIPES", "Options", "create", "recipe"]
