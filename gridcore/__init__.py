"""The domain: time, capacity, reservations, trips and the rules between them.

Everything here decides and nothing here acts. The package uses the standard library alone and
knows nothing of asyncio, grpc, sqlite3, clocks, randomness, logging or processes, so that the
daemons and the simulator run the same rules. Faults are raised from `gridcore.errors`; a refusal
is a value.
"""
