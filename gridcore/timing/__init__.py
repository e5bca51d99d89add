"""Instants, durations and time zones, as values and as text."""
