"""Many seeds of some experiments in the simulator: on all cores of this machine, or through Spark."""
