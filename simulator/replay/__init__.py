"""Workload logs through the production scheduler, and their metrics."""
