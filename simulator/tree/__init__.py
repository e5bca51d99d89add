"""Trees of managers and agents in virtual time."""
