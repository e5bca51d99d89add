"""The same calls through the user's SSH login, when a site's gRPC port cannot be reached.

Only the parts at this end import paramiko; ``bridge`` is what runs at the far end and needs nothing
but Python.
"""
