"""The ``gur`` command, from its first instruction: Ctrl-C is one line at any time.

The command line is imported only when Ctrl-C is answered for (``interrupts``).
"""

from __future__ import annotations

import signal

from gridtravel.travel_agent.cli.interrupts import leave_at_once


def main() -> None:
    """Entry point of the ``gur`` command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave_at_once)
    from gridtravel.travel_agent.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
