"""When a failure became inevitable: a failing run is replayed to many moments, and goes on in other ways."""
