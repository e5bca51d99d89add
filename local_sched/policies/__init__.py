"""Site policies: who is admitted, at what price, who is served first, on which nodes.

There are two kinds. A ``QueuePolicy`` has whole nodes, planned over time by the loop in
``local_sched.scheduling.backfill``; a ``SharingPolicy`` divides nodes between the jobs on them and
makes nobody wait. Either answers from what it is shown and nothing else: no clock, no input or
output, no memory of its own, never a true run time. So every policy answers the same laws in the
tests, and serves live jobs and replayed ones alike. A policy is one file here and one line in
``local_sched.admission.registry``.
"""
