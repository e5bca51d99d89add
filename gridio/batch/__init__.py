"""Sites that have nothing but a batch system's own commands, reached through a login."""
