"""The command line ``gur``."""
