"""RocketMQ's Java programs: how they come onto this machine, and a client that is a program with its own library."""
