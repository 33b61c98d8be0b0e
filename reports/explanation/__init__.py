"""Why a violation came about: the rows that its outcome hangs on, as a sequence of arrows."""
