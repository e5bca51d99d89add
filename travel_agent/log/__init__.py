"""The laptop's memory of its trips."""
