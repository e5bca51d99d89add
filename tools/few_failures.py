"""End with 1 unless few tests failed in the last run, and name them.

A few that fail beside thousands of others may only have met a busy machine: `make test-again` runs
them once more, alone. Each that passes then is unsteady all the same, and is to be mended.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

FEW = 12
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def main() -> int:
    """See the module."""
    failed = sorted(json.loads(LAST_FAILED.read_text()) if LAST_FAILED.exists() else ())
    print(f"{len(failed)} failed beside the others" + (":" if failed else ""))
    for name in failed:
        print(f"  {name}")
    if not 0 < len(failed) <= FEW:
        print(f"not run again: that is for 1 to {FEW}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
