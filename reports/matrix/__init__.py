"""What the runs of a matrix say together: experiment by system by law, and how long faults interrupted service."""
