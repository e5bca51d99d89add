"""Questions that a login may have for its user: a passphrase, a password, a code from a token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptField:
    """One thing to type."""

    text: str
    is_secret: bool = True
    """Not to be shown while it is typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What to ask, and on whose behalf. ``fields`` may be empty: then there is only something to
    read, such as "look at your telephone".
    """

    who: str
    """``user@host:port`` of the login that asks, which the far end cannot choose."""
    text: str = ""
    """The far end's own words."""
    fields: tuple[PromptField, ...] = ()


Prompter = Callable[[Prompt], list[str]]
"""Answers a prompt, field by field. Called in a thread of its own, one call at a time for each
login; ``EOFError`` when the user does not want to answer.
"""
