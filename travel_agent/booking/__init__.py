"""A trip from its booking to its outcome: hold, decide, commit; amend, heal, race, resume."""
