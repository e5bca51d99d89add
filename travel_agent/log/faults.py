"""What goes wrong with the logs of trips on this computer, as opposed to at a site."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gridtravel.gridcore.errors import GridError
from gridtravel.gridio.journal.contract import JournalFailed


class TripLogFailed(GridError):
    """This computer cannot keep what it must remember of a trip: its disk is full or broken. No
    site is at fault, and asking one again does not help.
    """


@contextmanager
def written_down(trip_id: str) -> Iterator[None]:
    """Within it, a journal that fails is a fault of this computer; what was begun is still there to
    be resumed.
    """
    try:
        yield
    except JournalFailed as fault:
        raise TripLogFailed(
            fault.message,
            hint=f"make room on this computer; `gur resume {trip_id}` then ends what was begun",
        ) from fault
