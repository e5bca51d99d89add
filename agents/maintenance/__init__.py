"""What a site does by itself beside its queue: standing reservations, notices, hooks, slots."""
