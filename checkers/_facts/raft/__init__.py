"""What binds the members of any Raft group: those of the controllers, and those of each group of a storage cluster."""
