"""What one node's own rows report: its lives, its log, and what it has called durable or confirmed."""
