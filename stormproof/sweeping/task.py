"""One task of a sweep: simulate one seed and judge it in this process, and leave one row.

The row is a file of its own that is there as a whole or not at all, so that a process that is killed loses one seed at
most, and a task that is tried again, wherever, has nothing left to do. What makes it is imported when it is needed: an
executor that lacks a library must be able to say so.
"""

from __future__ import annotations

import os
import socket
import sys

from chaos.errors import MachineError
from stormproof.campaign.campaign import Done
from stormproof.sweeping.plan import Asked


class Task(Asked):
    """What was asked for, as a task of a campaign."""

    __slots__ = ()

    def do(self) -> Done:
        """Make the row, unless it is there. Never raises but for what ends the process."""
        if self.row.exists():
            return Done(key=self.key)
        try:
            from stormproof.sweeping.judged import make_row

            make_row(self)
            return Done(key=self.key)
        except ImportError as error:
            where = f"{socket.gethostname()}, {os.path.realpath(sys.executable)}"
            return Done(key=self.key, error=f"an executor ({where}) can't simulate: {error}", hopeless=True)
        except OSError as error:
            what = error.filename or self.directory
            return Done(key=self.key, error=f"cannot write {what}: {error.strerror or error}", hopeless=True)
        except MachineError as error:
            return Done(key=self.key, error=str(error), hopeless=True)
