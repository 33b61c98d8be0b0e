"""The broker of a split cluster: :class:`~reference.split.broker.node.Broker`, and its parts."""
