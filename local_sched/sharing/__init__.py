"""Classes of nodes that several jobs share at once."""
