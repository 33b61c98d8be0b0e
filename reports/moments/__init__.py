"""The probability of a failure over the time of a run."""
