"""What many runs of one experiment say together: clusters of failures, what preceded them, coverage, saturation."""
