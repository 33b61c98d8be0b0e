"""The version of Stormproof, read by the packaging and by ``stormproof --version``."""

VERSION = "0.1.0"
