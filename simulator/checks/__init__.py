"""Checkers beside a simulated world: what must hold at each instant and at the end."""
