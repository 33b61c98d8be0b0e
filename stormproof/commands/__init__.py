"""The commands of ``stormproof``, by what they are about; ``stormproof.cli`` puts them together."""
