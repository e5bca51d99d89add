"""One JSON line an event, through the standard library's logging.

Only shells log: daemons, transports, adapters. What the domain has to say it says in its values.
``logging_context`` gives every line of a call its request id and site, across awaits and tasks.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, TextIO

REQUEST_KEY: Final = "request"
"""Name of the request id in a line; the same id appears at each site that a call reaches."""

SITE_KEY: Final = "site"

VALUE_LENGTH_MAX: Final = 2_000
"""Characters of one text in a line; a traceback may have ten times as many."""

_ORDINARY: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime"}
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_context: ContextVar[Mapping[str, str]] = ContextVar("logging_context", default=_NOTHING)


class JsonLines(logging.Formatter):
    """A record as one line: time, level, logger, event, fields of the context and of ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        moment = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage()[:VALUE_LENGTH_MAX],
            **_context.get(),
        }
        for key, value in record.__dict__.items():
            if key not in _ORDINARY:
                line[key] = value[:VALUE_LENGTH_MAX] if isinstance(value, str) else value
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-10 * VALUE_LENGTH_MAX :]
        return json.dumps(line, default=str)


def configure_logging(
    *, site: str = "", level: int | str = logging.INFO, stream: TextIO | None = None
) -> logging.Handler:
    """Send every record of this process to ``stream`` (standard error) as JSON lines.

    Called once, by a composition root; again replaces what it did before. ``site`` is in each line.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.set_name("gridtravel.gridio.system.logs")
    root = logging.getLogger()
    for former in [each for each in root.handlers if each.get_name() == handler.get_name()]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level)
    if site:
        _context.set({**_context.get(), SITE_KEY: site})
    return handler


@contextmanager
def logging_context(**fields: str) -> Iterator[None]:
    """Within it, every line of this task and of those it starts has ``fields``."""
    token = _context.set({**_context.get(), **fields})
    try:
        yield
    finally:
        _context.reset(token)


def current_request() -> str:
    """The request id of the call that is being served, or empty."""
    return _context.get().get(REQUEST_KEY, "")
