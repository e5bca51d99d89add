"""Metajobs and the trips that they become: planning, itineraries, the consensus on the outcome."""
