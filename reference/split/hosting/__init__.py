"""Replicas of many Raft groups on one node (:mod:`~reference.split.hosting.host`): what they share in a step, and what
their nodes say to each other."""

from reference.split.hosting.host import Host
from reference.split.hosting.machines import Machines

__all__ = ["Host", "Machines"]
