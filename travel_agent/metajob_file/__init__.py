"""Metajob files: INI as in the paper, TOML, JSON; read, checked, written."""
