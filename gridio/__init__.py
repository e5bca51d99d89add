"""Adapters: everything that touches the world on behalf of the domain.

The clock, identifiers, configuration, logs, certificates, the journal and the transports live
here, each behind an interface of `gridcore.ports`. No scheduling rule belongs in this package.
"""
