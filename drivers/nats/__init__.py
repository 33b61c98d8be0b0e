"""NATS: servers with JetStream's replicated streams that others wrote, built from the Go module proxy."""

from drivers.nats.driver import Options, create
from drivers.nats.recipe import RECIPES, recipe

__all__ = ["RECIPES", "Options", "create", "recipe"]
