"""Why a violation came about: the rows that caused its outcome, as a sequence of arrows."""
