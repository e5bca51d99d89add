"""What the user may choose for a command: which search looks for a start, which ways lead to sites.

Apart from the list of machines (``sites.config``), whose reading loads pydantic: the command line
needs the names of the choices before it does anything at all.
"""

from __future__ import annotations

import enum


class SearchChoice(enum.StrEnum):
    """The ``--search`` of a command."""

    AUTO = "auto"
    """Sweep, unless one of the sites can only set and cancel reservations."""
    SWEEP = "sweep"
    """Inquiries, then the provably earliest start."""
    PROBE = "probe"
    """The paper's: test reservations that are set and cancelled."""


class TransportChoice(enum.StrEnum):
    """The ``--transport`` of a command."""

    AUTO = "auto"
    """gRPC, and SSH where that is shut and the machine has a login."""
    GRPC = "grpc"
    SSH = "ssh"
