"""Real daemons and laptops on loopback, run to death: the counterpart of the simulated grid."""
