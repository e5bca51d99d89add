"""The ``gur`` command, from its first instruction: Ctrl-C is one line at any time.

Imports take half a second, and nothing is begun before a command's own work is (``guard`` in
``command_frame``, which takes Ctrl-C over). Until then there is nothing to undo, so whoever presses
it gets the prompt back at once, and no traceback.
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


def main() -> None:
    """Entry point of the ``gur`` command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave_at_once)
    from travel_agent.cli import main as run

    run()


if __name__ == "__main__":
    main()
