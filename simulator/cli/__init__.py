"""The command line ``gurlab``."""
