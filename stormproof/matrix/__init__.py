"""Experiments × systems, run one after the other, and one table of what came out."""
