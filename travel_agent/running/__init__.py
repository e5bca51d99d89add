"""A booked trip: files in, jobs, output, files home, notices, history."""
