"""etcd: servers of a Raft key-value store that others wrote, built from the Go proxy."""

from drivers.etcd.driver import Options, create
from drivers.etcd.recipe import RECIPES, recipe

__all__ = ["RECIPES", "Options", "create", "recipe"]
