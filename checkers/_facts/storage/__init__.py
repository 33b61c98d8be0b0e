"""What the laws of storage clusters need of the same rows: meta's catalogue, and the logs of the groups.

Nothing here asks a clock. What happened in a group is ordered by the index in its log, and meta's entries by their
revision.
"""
