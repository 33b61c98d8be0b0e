"""RIP-18's metadata: topics, routes, subscription groups and who holds consumer offsets, as entries of the controllers'
log that name servers and brokers follow.

:mod:`~reference.metadata.catalog` is the state that the log builds, :mod:`~reference.metadata.watchers` reports its
changes, :mod:`~reference.metadata.follower` keeps a view of it elsewhere, and :mod:`~reference.metadata.nodes` has the
controller, name server and broker that these are parts of.
"""
