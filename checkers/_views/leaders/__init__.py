"""Whether controllers keep to the leader that they have, leaders to the term that they lead, and both answer at once."""
