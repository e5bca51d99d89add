"""Virtual time, a simulated network, processes that die, chance, the event log."""
