"""What holds for every test."""

from __future__ import annotations

import signal

# A shell without job control starts background commands with SIGINT ignored, and children inherit that: then no test
# of Ctrl-C could pass.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
