"""Site policies: plain functions from a frozen view of the site to an order of jobs.

A policy has no clock, no input or output and no memory, so that every policy answers the same
laws in the tests.
"""
