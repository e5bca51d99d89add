"""Ctrl-C before and after a command of ``gur`` has begun its work.

Imports take half a second, and nothing is begun before a command's own work is, which takes Ctrl-C
over. Until then there is nothing to undo, so whoever presses it gets the prompt back at once, and
no traceback. This is loaded first of all and imports next to nothing.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

EXIT_INTERRUPTED = 130


def leave_at_once(number: int, frame: FrameType | None) -> None:
    """Handles the signal as long as nothing is begun."""
    os.write(2, b"gur: interrupted before anything was begun\n")
    os._exit(EXIT_INTERRUPTED)


def take_over() -> None:
    """From here on Ctrl-C is a ``KeyboardInterrupt``, for somebody who undoes what was begun."""
    if signal.getsignal(signal.SIGINT) is leave_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
