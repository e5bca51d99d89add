"""What the last release wrote and knew, which every later one has to read and know as well.

``last_release/`` is never written anew while that release is in use: its examples of records, the
fields of its messages, and beside each journal of the corpus what it knew after a replay. Fields
that it did not have are not looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).resolve().parent / "last_release"


def known_of(journal: str) -> Any:
    """What the last release knew of a journal of the corpus, under today's names."""
    known = json.loads((FOLDER / "journals" / f"{journal}.json").read_text("utf-8"))
    stories = [known, *known.values()] if journal.startswith("trips") else [known]
    for each in stories:
        if isinstance(each, dict) and "state" in each:
            _rename(each["state"])
    return known


def lost(known: Any, now: Any, where: str = "") -> Iterator[str]:
    """Where ``now`` does not say all that ``known`` says. ``now`` may have more fields, and nothing
    else that is more or other.
    """
    if isinstance(known, dict) and isinstance(now, dict):
        for key, value in known.items():
            if key in now:
                yield from lost(value, now[key], f"{where}/{key}")
            else:
                yield f"{where}/{key}: {value!r} is gone"
    elif isinstance(known, list) and isinstance(now, list) and len(known) == len(now):
        for number, (value, other) in enumerate(zip(known, now, strict=True)):
            yield from lost(value, other, f"{where}/{number}")
    elif known != now:
        yield f"{where}: {known!r} has become {now!r}"


def _rename(state: dict[str, Any]) -> None:
    """What stands elsewhere today, and what is no longer there on purpose."""
    if "groups" in state:
        # A manager keeps no outcomes any more, so it forgets the votes that its journal has.
        del state["votes"]
    for decided in (state.get("amendment"), *state.get("dropped", ())):
        if decided is not None:
            acceptors = decided.pop("acceptors")
            decided["attempt"] = {"number": decided["attempt"], "acceptors": acceptors}
    if state.get("amended"):
        # After a change all files are sent again, so nothing is said of those sent before it.
        state["files sent"] = []
