"""The one line with which a server turns a connection away before anything else is said on it.

A connection that is not let in has no call on it that could fail, and gRPC reports its end as a
connection that broke. So the server writes this line in the clear and closes; whoever looks for the
reason of a failure (``client.diagnosis``) reads it. It proves nothing and is shown as text.
"""

from __future__ import annotations

import json
from typing import Final

from gridtravel.gridcore.errors import UnavailableError

MARK: Final = b"grid-refused 1 "
LINE_BYTES_MAX: Final = 1_024
WORDS_MAX: Final = 300
"""Characters of the reason, and of the next step."""


def refusal_line(reason: str, next_step: str) -> bytes:
    """What the server writes; ASCII, at most ``LINE_BYTES_MAX`` bytes."""
    words = {"reason": reason[:WORDS_MAX], "next": next_step[:WORDS_MAX]}
    line = MARK + json.dumps(words, ensure_ascii=True).encode() + b"\n"
    if len(line) > LINE_BYTES_MAX:
        return refusal_line("there is no room for another connection", "try again later")
    return line


def refusal_in(said: bytes, attempted: str) -> UnavailableError | None:
    """The fault that the first bytes of a connection spell; ``None``: they are something else."""
    if not said.startswith(MARK):
        return None
    try:
        words = json.loads(said[len(MARK) : LINE_BYTES_MAX].partition(b"\n")[0])
        reason, next_step = str(words["reason"]), str(words["next"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return UnavailableError(f"{attempted}: the site turns the connection away")
    return UnavailableError(f"{attempted}: {_shown(reason)}", hint=_shown(next_step))


def _shown(words: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in words[:WORDS_MAX])
