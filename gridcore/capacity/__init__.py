"""Free capacity over time: the exact profile, slots and their ladders, sets of nodes."""
