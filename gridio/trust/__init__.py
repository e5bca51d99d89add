"""Identities and certificates: the authority, credentials, the grid-mapfile."""
