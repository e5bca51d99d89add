"""A whole simulated grid: sites, laptops, local users, faults."""
