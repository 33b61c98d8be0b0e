"""Experiments that bring the reference system, or another, into one corner each (``stormproof/shipped.py``)."""
