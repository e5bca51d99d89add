"""The user's grid: configuration, destinations, connections and their fallback."""
