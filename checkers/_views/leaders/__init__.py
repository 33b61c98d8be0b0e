"""Whether controllers keep to their leader, leaders to the term that they lead, and both answer at once."""
