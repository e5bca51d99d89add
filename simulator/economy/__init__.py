"""Workloads whose users say what a result is worth, decided by the policies that sites have."""
