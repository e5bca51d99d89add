"""Domain values as tables and lines of a terminal."""
