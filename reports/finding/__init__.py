"""One cause of a run's violations as a page of its own, for those who make the tested system."""
