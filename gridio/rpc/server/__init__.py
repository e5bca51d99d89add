"""The serving side of gRPC: peers, limits, handlers, the door for local callers."""
