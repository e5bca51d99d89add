"""Blocking work beside the event loop, in threads that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_thread(name: str, work: Callable[[], T]) -> asyncio.Future[T]:
    """Run ``work`` in a thread of its own: the loop's own threads would keep the program from
    ending while somebody does not type a password.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, fault: BaseException | None) -> None:
        if future.done():
            return
        if fault is not None:
            future.set_exception(fault)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            result, fault = work(), None
        except Exception as found:
            result, fault = None, found
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, result, fault)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
