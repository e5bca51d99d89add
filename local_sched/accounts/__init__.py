"""Accounts of the machine: as whom tasks run, and files touched with an account's own rights."""
