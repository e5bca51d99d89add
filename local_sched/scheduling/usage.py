"""Who waits for how much and runs how much: one record a user and one an account.

Counts only, for the caps of a site; money is in the ledger, elsewhere.
"""

from __future__ import annotations

from gridtravel.local_sched.scheduling.jobs import Job


class Usage:
    """What one user or account has at present. Changed by ``UsageBook`` alone."""

    __slots__ = ("jobs_running", "jobs_waiting", "nodes_running")

    def __init__(self) -> None:
        self.jobs_waiting = 0
        self.jobs_running = 0
        self.nodes_running = 0


class UsageBook:
    """All users and accounts that were ever seen, in order of appearance."""

    __slots__ = ("accounts", "users")

    def __init__(self) -> None:
        self.users: dict[str, Usage] = {}
        self.accounts: dict[str, Usage] = {}

    def of_user(self, owner: str) -> Usage:
        """The record of a user, made at first sight."""
        usage = self.users.get(owner)
        if usage is None:
            usage = self.users[owner] = Usage()
        return usage

    def of_account(self, account: str) -> Usage:
        """The record of an account, made at first sight."""
        usage = self.accounts.get(account)
        if usage is None:
            usage = self.accounts[account] = Usage()
        return usage

    def job_submitted(self, job: Job) -> None:
        """One more waits."""
        usage = self.users.get(job.owner) or self.of_user(job.owner)
        usage.jobs_waiting += 1
        usage = self.accounts.get(job.account) or self.of_account(job.account)
        usage.jobs_waiting += 1

    def job_withdrawn(self, job: Job) -> None:
        """It leaves without having started."""
        self.of_user(job.owner).jobs_waiting -= 1
        self.of_account(job.account).jobs_waiting -= 1

    def job_started(self, job: Job) -> None:
        """It runs from now on."""
        nodes = job.nodes
        user, account = self.users[job.owner], self.accounts[job.account]
        user.jobs_waiting -= 1
        user.jobs_running += 1
        user.nodes_running += nodes
        account.jobs_waiting -= 1
        account.jobs_running += 1
        account.nodes_running += nodes

    def job_ended(self, job: Job) -> None:
        """It runs no longer."""
        nodes = job.nodes
        user, account = self.users[job.owner], self.accounts[job.account]
        user.jobs_running -= 1
        user.nodes_running -= nodes
        account.jobs_running -= 1
        account.nodes_running -= nodes
