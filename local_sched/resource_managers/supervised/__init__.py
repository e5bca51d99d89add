"""Tasks under a supervisor process of their own, which outlives the daemon."""
