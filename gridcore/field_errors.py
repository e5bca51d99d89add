"""A fault of one named field, for readers of files that point at the line where the field stands.

It belongs to the tree of ``errors`` as a child of ``InputError``: callers that do not care about
fields catch that.
"""

from __future__ import annotations

from gridcore.errors import InputError


class FieldError(InputError):
    """An ``InputError`` about one named field of the value that was being made."""

    def __init__(
        self, field: str, message: str, *, hint: str | None = None, index: int | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.field = field
        self.index = index
        """Position within the field when it is a sequence and one member is at fault."""
