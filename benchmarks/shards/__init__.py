"""How many rows the shards of a large run hold, and how much memory they take."""
