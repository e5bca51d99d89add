"""The one way by which words reach a terminal (docs/decisions/0030-foreign-text-is-text.md)."""
