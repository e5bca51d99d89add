"""Site policies: who is admitted, who is served first, where a job is put.

A policy sees a frozen ``SiteView`` and nothing else: no clock, no input or output, no memory of its
own, and never a true run time. Every policy therefore answers the same laws in the tests, and
serves live jobs and replayed ones alike. The loop around it is ``local_sched.scheduling.backfill``.
"""
