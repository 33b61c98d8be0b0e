"""Puts tinyq under test."""
