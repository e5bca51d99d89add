"""The demonstration on one machine, and the example trips."""
