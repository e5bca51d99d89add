"""The scheduler of one site: its cycle, queue, pools, backfill, and what it answers."""
