"""Reservations and the calendar that holds them: what is asked, decided, promised and changed."""
