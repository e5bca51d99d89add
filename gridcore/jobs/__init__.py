"""What a user wants run: jobs, tasks, handovers between stages, races of copies."""
