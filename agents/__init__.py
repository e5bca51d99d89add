"""The node agent: owns the calendar of its nodes, runs their tasks and reports to its manager."""
