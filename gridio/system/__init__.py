"""The machine: clock, identifiers, logs, alarms, commands, mail, private files."""
