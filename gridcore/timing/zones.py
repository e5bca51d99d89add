"""Time zones by their IANA name, and what to say to people who write anything else.

An abbreviation names no zone: CST is Chicago, Shanghai and Havana. It is refused with the names
that may be meant. The old fixed-offset names of the database (EST, MST, CET, PST8PDT) are refused
too, because they are not what those who write them mean: EST stays five hours behind UTC in summer.
"""

from __future__ import annotations

import difflib
import re
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from gridtravel.gridcore.errors import InputError

UTC_NAMES: Final = ("UTC", "Z", "GMT")
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,30}(?:/[A-Za-z0-9_+-]{1,31}){1,3}")

ABBREVIATIONS: Final = {
    "PST": ("America/Los_Angeles", "Asia/Manila"),
    "PDT": ("America/Los_Angeles", "America/Vancouver"),
    "PT": ("America/Los_Angeles", "America/Vancouver"),
    "MST": ("America/Denver", "America/Phoenix"),
    "MDT": ("America/Denver",),
    "MT": ("America/Denver", "America/Phoenix"),
    "CST": ("America/Chicago", "Asia/Shanghai", "America/Havana"),
    "CDT": ("America/Chicago", "America/Havana"),
    "CT": ("America/Chicago",),
    "EST": ("America/New_York", "America/Panama"),
    "EDT": ("America/New_York", "America/Toronto"),
    "ET": ("America/New_York", "America/Toronto"),
    "AKST": ("America/Anchorage",),
    "AKDT": ("America/Anchorage",),
    "HST": ("Pacific/Honolulu",),
    "AST": ("America/Halifax", "America/Puerto_Rico", "Asia/Riyadh"),
    "ADT": ("America/Halifax",),
    "NST": ("America/St_Johns",),
    "BRT": ("America/Sao_Paulo",),
    "BST": ("Europe/London", "Asia/Dhaka"),
    "IST": ("Asia/Kolkata", "Europe/Dublin", "Asia/Jerusalem"),
    "WET": ("Europe/Lisbon",),
    "WEST": ("Europe/Lisbon",),
    "CET": ("Europe/Berlin", "Europe/Paris"),
    "CEST": ("Europe/Berlin", "Europe/Paris"),
    "MEZ": ("Europe/Berlin",),
    "MESZ": ("Europe/Berlin",),
    "MET": ("Europe/Berlin",),
    "EET": ("Europe/Helsinki", "Europe/Athens"),
    "EEST": ("Europe/Helsinki", "Europe/Athens"),
    "MSK": ("Europe/Moscow",),
    "SAST": ("Africa/Johannesburg",),
    "SGT": ("Asia/Singapore",),
    "HKT": ("Asia/Hong_Kong",),
    "JST": ("Asia/Tokyo",),
    "KST": ("Asia/Seoul",),
    "AWST": ("Australia/Perth",),
    "ACST": ("Australia/Adelaide", "Australia/Darwin"),
    "AEST": ("Australia/Sydney", "Australia/Brisbane"),
    "AEDT": ("Australia/Sydney", "Australia/Melbourne"),
    "NZST": ("Pacific/Auckland",),
    "NZDT": ("Pacific/Auckland",),
}
"""What people write, and the zones they may mean; the likeliest first."""


def find_zone(name: str) -> ZoneInfo:
    """The zone called ``name`` in the IANA database, or UTC for ``UTC``, ``Z`` and ``GMT``.

    ``InputError`` names the candidates when ``name`` is an abbreviation or a misspelling.
    """
    wanted = name.strip()
    if wanted.upper() in UTC_NAMES:
        return ZoneInfo("UTC")
    if _KEY.fullmatch(wanted):
        try:
            return ZoneInfo(wanted)
        # A folder of the database (America/Argentina) is an OSError of one kind or another.
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    raise InputError(_refusal(wanted), hint=_hint(wanted))


def looks_like_zone(word: str) -> bool:
    """True when ``word`` can only be meant as a zone's name, known or not."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_+/-]*", word) is not None


def _refusal(wanted: str) -> str:
    if wanted.upper() in ABBREVIATIONS:
        return f"{wanted!r} is an abbreviation, not a time zone"
    return f"there is no time zone {wanted[:60]!r}"


def _hint(wanted: str) -> str:
    """Names that may be meant: of the abbreviation, of the city, or spelled nearly so."""
    candidates = ABBREVIATIONS.get(wanted.upper())
    if candidates is None:
        known = sorted(key for key in available_timezones() if "/" in key)
        folded = wanted[:60].lower().replace(" ", "_")
        cities = [key for key in known if key.lower().rsplit("/", 1)[-1] == folded]
        by_folded = {key.lower(): key for key in known}
        spelled = [by_folded[key] for key in difflib.get_close_matches(folded, by_folded, n=3)]
        candidates = tuple((cities or spelled)[:3])
    if candidates:
        return "write " + " or ".join(candidates)
    return "write an IANA name such as America/Los_Angeles, or UTC"
