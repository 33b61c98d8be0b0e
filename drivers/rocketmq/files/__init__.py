"""Reads what RocketMQ's brokers keep on their disks, without a broker, and says what is damaged and where.

Every reader takes files that may be damaged in any way: it raises nothing but ``OSError`` (the file can't be read), and
ends in a time that is bounded by the file's size. What it can't make sense of is a :class:`chaos.scrub.Damage`.
"""
