"""The ``gurd`` command. Only the bridge does not go through ``gurd.cli``: a login starts it for
every connection, and it would take ten times as long.
"""

from __future__ import annotations

import sys

from gridtravel.gridio.ssh import bridge


def main() -> None:
    """Entry point of the ``gurd`` command."""
    if sys.argv[1:2] == ["bridge"] and "--help" not in sys.argv:
        sys.exit(bridge.main(sys.argv[2:]))
    from gridtravel.gurd.cli import app

    app()
