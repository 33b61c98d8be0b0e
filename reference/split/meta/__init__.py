"""The meta nodes of a split cluster: what they agree on, what their leader decides, and the node that does both."""
