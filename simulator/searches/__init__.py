"""The travel agent's searches compared."""
