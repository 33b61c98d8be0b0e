"""Makes a long run of a short one: its load again and again, in the same queues and logs."""
