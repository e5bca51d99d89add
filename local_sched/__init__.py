"""The scheduler of one site: its queue, backfill, reservations and the processes it starts."""
