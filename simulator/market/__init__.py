"""Three real sites that compete by price, and users with deadlines who have one budget each."""
