"""Adapters: everything that touches the world on behalf of the domain.

The clock, identifiers, logs, mail, certificates, the journal and the transports live here. No
scheduling rule belongs in this package.
"""
