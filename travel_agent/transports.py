"""Which ways to a site the user allows."""

from __future__ import annotations

import enum


class TransportChoice(enum.StrEnum):
    """The ``--transport`` of a command."""

    AUTO = "auto"
    """gRPC, and SSH where that is shut and the machine has a login."""
    GRPC = "grpc"
    SSH = "ssh"
