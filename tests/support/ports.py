"""Ports for daemons that must know theirs before they start.

Several workers of pytest-xdist run beside each other, and each has ports of its own, all below
those that the system gives out by itself: between being found free and being used nobody else takes
one.
"""

from __future__ import annotations

import os
import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"
PORT_FIRST: Final = 10_000
WORKERS_APART: Final = 4
"""With more workers than these two share their ports."""
PORTS_A_WORKER: Final = 2_400
CONTACT_PORTS_A_WORKER: Final = 1_200
"""The first of them are for contacts of trips (``grid_world``), which sites give out themselves."""

_worker: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
CONTACT_PORT_FIRST: Final = PORT_FIRST + _worker % WORKERS_APART * PORTS_A_WORKER
_FIRST: Final = CONTACT_PORT_FIRST + CONTACT_PORTS_A_WORKER
_COUNT: Final = PORTS_A_WORKER - CONTACT_PORTS_A_WORKER
_given = os.getpid() * 31 % _COUNT
"""How many this process has given out; it begins anywhere, as another run may go on beside."""


def free_ports(count: int) -> int:
    """The first of ``count`` ports in a row on which nobody listens, and which were not given out
    shortly before.
    """
    global _given
    for _ in range(_COUNT):
        offset = _given % _COUNT
        _given += count if offset + count <= _COUNT else _COUNT - offset
        if offset + count <= _COUNT and _are_free(_FIRST + offset, count):
            return _FIRST + offset
    raise AssertionError(f"no {count} ports in a row are free from {_FIRST} on")


def _are_free(first: int, count: int) -> bool:
    probes = [socket.socket() for _ in range(count)]
    try:
        for offset, probe in enumerate(probes):
            # As a daemon binds: connections that ended lately do not matter.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, first + offset))
    except OSError:
        return False
    finally:
        for probe in probes:
            probe.close()
    return True
