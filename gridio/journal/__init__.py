"""Journals: one contract, its implementations, records, locks, compaction."""
