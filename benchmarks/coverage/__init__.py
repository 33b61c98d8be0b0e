"""What storms reach: branches of the reference system, and which faults met whom in which phase."""
