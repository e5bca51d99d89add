"""Groups of reservations through hold and commit, and their trips' outcomes."""
