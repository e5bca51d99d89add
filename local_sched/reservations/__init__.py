"""Reservations at one site: by users within limits, standing, by the site, on named nodes."""
