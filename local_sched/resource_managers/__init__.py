"""Resource managers: the ways a site starts, limits and stops the processes of a job."""
