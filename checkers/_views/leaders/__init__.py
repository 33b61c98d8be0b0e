"""Whether controllers keep to the leader that they have, and leaders to the term that they lead."""
