"""What carries messages: the one interface below the clients of both services.

``ChannelWire`` is a gRPC channel; ``LocalWire`` carries the same bytes within one process. A wire
knows verbs and messages and nothing of what they mean.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import Final, ParamSpec, Protocol, TypeVar

from gridtravel.gridcore.errors import GridError, InputError
from gridtravel.gridio.rpc.verbs import A, Q, Verb

TIME_KEY: Final = "grid-time"
"""Metadata of every answer: the site's clock when it was made, seconds with six decimals."""

REQUEST_ID_KEY: Final = "grid-request"
"""Metadata of a question: the id under which the caller logs what this call belongs to."""

MESSAGE_BYTES_MAX: Final = 4 << 20
"""Largest message either way; a larger one is refused before it is read (RESOURCE_EXHAUSTED)."""

P = ParamSpec("P")
T = TypeVar("T")


class Wire(Protocol):
    """Carries messages of one caller to one site. Faults are errors of ``gridcore.errors``."""

    @property
    def endpoint(self) -> str:
        """Where it leads, for messages."""
        ...

    async def ask(self, verb: Verb[Q, A], question: Q) -> A:
        """One question, one answer."""
        ...

    def listen(self, verb: Verb[Q, A], question: Q) -> AsyncGenerator[A, None]:
        """One question, many answers; closing the iterator ends the call."""
        ...

    async def tell(self, verb: Verb[Q, A], parts: AsyncIterable[Q]) -> A:
        """Many parts, one answer."""
        ...


def understood(
    wire: Wire, decode: Callable[P, T], /, *arguments: P.args, **keywords: P.kwargs
) -> T:
    """The value of an answer that came over ``wire``.

    What ``decode`` finds wrong there is the site's fault and not the caller's, so it is not left an
    ``InputError``, which would tell users to correct their own words.
    """
    try:
        return decode(*arguments, **keywords)
    except InputError as fault:
        raise GridError(
            f"{wire.endpoint} gave an answer that cannot be right: {fault.message}",
            hint="the site may run another version of the software",
        ) from fault
