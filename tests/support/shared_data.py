"""Where tests find recorded workloads and reference texts that are too large for the repository.

They lie in a folder beside the checkout named `shared`, or wherever the environment variable
GRID_SHARED points. A test that needs a file which is not there is skipped, and says so.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def shared_path(*parts: str) -> Path:
    """Return the path of a shared file or folder; skip the test loudly when it is missing."""
    root = Path(os.environ.get("GRID_SHARED") or CHECKOUT.parent / "shared")
    path = root.joinpath(*parts)
    if not path.exists():
        pytest.skip(
            f"NOT TESTED: {'/'.join(parts)} is missing. Set GRID_SHARED to the folder that holds "
            f"it (looked in the folder named shared beside the checkout)."
        )
    return path
