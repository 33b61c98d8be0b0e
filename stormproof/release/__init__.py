"""What a release has besides its wheel and source (docs/releasing.md)."""
