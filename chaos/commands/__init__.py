"""The commands of ``stormproof``, by what they are about; ``chaos.cli`` puts them together."""
