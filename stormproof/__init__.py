"""The application: the command line, and what it does with the library under it."""
