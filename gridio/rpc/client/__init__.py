"""The calling side of gRPC."""
