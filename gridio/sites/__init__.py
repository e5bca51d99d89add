"""Connections to other sites, and what is done over them: publishing, transfers, votes."""
