"""Memory that nobody holds any more, given back to the machine.

Allocators keep what is freed for the next request. With shards of a hundred megabytes, one after the other, each of
which leaves holes of its own size, that is half of what a process seems to need.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import pyarrow as pa


def give_back() -> None:
    """Have the allocators of Arrow and of the C library return what is free. It takes milliseconds, and what is asked
    for next costs its pages again: call it between large pieces of work. A C library that can't do it keeps it."""
    pa.default_memory_pool().release_unused()
    if trim := _trim():
        trim(0)


@cache
def share_allocator() -> None:
    """Have Arrow take its memory where the rest of the process does, from now on: what one of them has freed is there
    for the other one, which is a fifth of all memory that it takes to judge a large run."""
    pa.set_memory_pool(pa.system_memory_pool())


@cache
def _trim() -> Any:
    """``malloc_trim`` of the GNU C library; None where there is another one."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return None
