"""GUR, the traveller's side: reads a metajob, asks the sites, finds a common start and books it."""
