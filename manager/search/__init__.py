"""How a manager finds room below it, refuses, and asks above it."""
