"""The stores of a split cluster: :class:`~reference.split.store.node.Store`, and its parts."""
