"""Imprecise calendars and slotted schedulers of the studies alone; no site runs them."""
