"""A call that failed, whichever way it was carried: by itself, or within a session."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
import grpc.aio


class CallFailedError(Exception):
    """A status other than OK; ``faults.fault_from`` says what it means."""

    def __init__(
        self, code: grpc.StatusCode, details: str | None, metadata: Iterable[Any] | None = None
    ) -> None:
        super().__init__(code, details)
        self.code = code
        self.details = details
        self.metadata: tuple[Any, ...] = tuple(metadata or ())
        """Pairs of key and value that came with the status."""

    @classmethod
    def of(cls, error: grpc.aio.AioRpcError) -> CallFailedError:
        """What gRPC raised, in our form."""
        return cls(error.code(), error.details(), error.trailing_metadata())
