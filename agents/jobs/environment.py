"""What a task is told by its site: all that two coupled programs have to find each other with.

Documented for users in docs/leg-environment.md; the names begin with ``GRID_`` and nobody else may
set such a name.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from gridtravel.gridcore.booking.reservations import Reservation
from gridtravel.gridcore.jobs.job import JobView

BARRIER: Final = str(Path(sys.executable).with_name("grid-barrier"))
"""Installed beside the interpreter that runs the daemon."""


def leg_environment(view: JobView, end: int, reservation: Reservation | None) -> dict[str, str]:
    """The ``GRID_`` variables of one task; those of a trip only inside a trip's reservation.

    ``GRID_JOB`` and ``GRID_NODELIST`` are added by whatever launches it.
    """
    variables = {
        "GRID_SITE": view.site,
        "GRID_NODES": str(view.spec.nodes),
        "GRID_END": str(end),
    }
    if reservation is None:
        return variables
    variables["GRID_RESERVATION"] = reservation.reservation_id
    variables["GRID_START"] = str(reservation.start)
    variables["GRID_CONTACT"] = reservation.contact
    trip = reservation.request.trip
    if trip is not None:
        variables["GRID_TRIP"] = trip.trip_id
        variables["GRID_LEG"] = trip.leg
        if view.spec.leg_before:
            variables["GRID_LEG_BEFORE"] = view.spec.leg_before
        if view.spec.leg_after:
            variables["GRID_LEG_AFTER"] = view.spec.leg_after
        companions = [
            {"leg": each.leg, "site": each.site, "nodes": each.nodes, "contact": each.contact}
            for each in view.spec.companions
        ]
        variables["GRID_COMPANIONS"] = json.dumps(companions)
        variables["GRID_BARRIER"] = BARRIER
    return variables
