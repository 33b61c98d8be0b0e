"""What one node's own rows tell: its lives, its log, and what it has called durable or confirmed."""
