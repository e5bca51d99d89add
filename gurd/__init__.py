"""The composition root of the daemons: where agents, managers and adapters become one process."""
