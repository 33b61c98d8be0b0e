"""The package that ``stormproof new driver NAME`` writes: ``tinyq`` stands for the name, in paths and in texts."""
