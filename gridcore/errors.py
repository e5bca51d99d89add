"""Faults of the grid, as one tree. A refusal is not here: it is a value (``Decline``).

    GridError                 something went wrong; ``exit_code`` 1
    ├── InputError            the caller's words are wrong; nothing was changed (2)
    │   └── FieldError        the same, about one named field of a value (2)
    ├── NotFoundError         the thing named does not exist, or is not the caller's to see (2)
    ├── NotAuthorisedError    the caller is not allowed; asking again will not help (5)
    ├── UnavailableError      the other side cannot be reached or cannot answer now (4)
    │   └── DeadlineError     no answer came in time; it may still have been carried out (4)
    └── ConflictError         the owner's book and the demand contradict each other (1)

Only ``UnavailableError`` and its children are worth a retry; every verb of the protocol is
idempotent, so a retry with the same request id is always safe. ``exit_code`` is what a command line
returns for the fault (docs/exit-codes.md).

Each fault has a next step. Words that are wrong can be corrected, and what is away may come back;
every other fault is made with the step that helps in its case: its constructor takes no less.
"""

from __future__ import annotations

from typing import ClassVar, Final

REPORT_IT: Final = "that is a mistake of the program: report it, with the daemon's log"
"""The next step where its own books contradict each other."""


class GridError(Exception):
    """A fault, told in one line, with a hint that names the next step."""

    exit_code: ClassVar[int] = 1
    may_retry: ClassVar[bool] = False
    usual_step: ClassVar[str] = "ask whoever runs the site"
    """What helps where the fault itself does not say."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        """What helps in this case; empty only where ``usual_step`` does."""

    @property
    def next_step(self) -> str:
        """What whoever meets the fault does next."""
        return self.hint or self.usual_step

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InputError(GridError):
    """Wrong usage or malformed input; ``hint`` says what would be right."""

    exit_code = 2
    usual_step = "correct it and say it again; nothing was changed"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)


class FieldError(InputError):
    """An ``InputError`` about one named field of the value that was being made, for readers of
    files that point at the line where the field stands.
    """

    def __init__(
        self, field: str, message: str, *, hint: str = "", index: int | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.index = index
        """Position within the field when it is a sequence and one member is at fault."""


class NotFoundError(GridError):
    """No such reservation, job, site or file, as far as this caller may know."""

    exit_code = 2


class NotAuthorisedError(GridError):
    """The caller's proven identity does not allow this."""

    exit_code = 5


class UnavailableError(GridError):
    """The other side cannot be reached, or cannot serve for the moment."""

    exit_code = 4
    may_retry = True
    usual_step = "try again later"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)


class DeadlineError(UnavailableError):
    """No answer in time; the request may or may not have been carried out."""


class ConflictError(GridError):
    """A change that the present state does not allow, such as committing a released hold."""
