"""Notices on their way out: sent beside everything else, so that no mail server holds up a site."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gridtravel.gridcore.errors import GridError
from gridtravel.gridio.system.notify import Notice, Notifier

log = logging.getLogger(__name__)

PENDING_MAX: Final = 100
"""Notices on their way at a time; what comes beyond is logged and dropped."""


class NoticeSender:
    """Belongs to an agent's event loop."""

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._pending: dict[asyncio.Task[None], None] = {}

    def send_soon(self, notice: Notice) -> None:
        """Send it when it goes; nobody to send it to, or no way to, is no fault of the caller."""
        if not notice.to:
            return
        if len(self._pending) >= PENDING_MAX:
            log.warning("too many notices are on their way; dropped: %s", notice.subject)
            return
        task = asyncio.get_running_loop().create_task(self._send(notice), name="notice")
        self._pending[task] = None
        task.add_done_callback(lambda done: self._pending.pop(done, None))

    async def drained(self) -> None:
        """Return when nothing is on its way any more."""
        while self._pending:
            await asyncio.gather(*self._pending)

    async def close(self) -> None:
        """Give up what is still on its way."""
        pending = list(self._pending)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _send(self, notice: Notice) -> None:
        try:
            await self._notifier.send(notice)
        except GridError as fault:
            log.warning("a notice was not sent: %s", fault)
