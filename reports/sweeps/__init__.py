"""What many runs of one experiment say together: causes of failures, what preceded them, coverage, saturation."""

#: In the directory of a sweep: what it was begun with, and its page.
PLAN = "sweep.json"
PAGE = "index.html"
