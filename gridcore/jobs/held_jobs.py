"""What is to run in a leg of a trip, as it travels with the request to hold that leg.

The job is a part of what is decided: the site checks and keeps it with the hold, and the commit of
the hold leaves it bound to the leg, whoever brings the commit (docs/decisions/0034).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gridtravel.gridcore.errors import InputError
from gridtravel.gridcore.jobs.job import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldJob:
    """A job without what nobody knows yet when its leg is asked for: the reservation that it will
    run in, and where its companions can be reached.
    """

    spec: JobSpec
    """Its ``reservation_id`` and the contacts of its companions are empty."""

    def __post_init__(self) -> None:
        if self.spec.reservation_id:
            raise InputError("a job that comes with its hold names no reservation yet")
        if self.spec.race is not None:
            raise InputError("a copy in a race waits in the queue, not in a reservation")
        if any(each.contact for each in self.spec.companions):
            raise InputError("nobody knows the contacts of companions before all legs are held")

    def bound(self, reservation_id: str, contacts: Mapping[str, str]) -> JobSpec:
        """The job as the commit leaves it. ``contacts``: by leg, of the trip's manifest; a leg that
        is not there has none.
        """
        companions = tuple(
            replace(each, contact=contacts.get(each.leg, "")) for each in self.spec.companions
        )
        return replace(self.spec, reservation_id=reservation_id, companions=companions)
