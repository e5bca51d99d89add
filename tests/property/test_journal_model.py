"""The journal in memory against a list: any mixture of appends, writes, snapshots and crashes."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from gridtravel.gridio.journal.contract import Record
from gridtravel.gridio.journal.memory import Disk, MemoryJournal


class JournalMachine(RuleBasedStateMachine):
    """The model: three plain lists of what is safe, what is written, and what waits."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk()
        self.journal = MemoryJournal(self.disk, auto=False)
        self.written: list[int] = []
        self.unsynced = 0
        self.waiting: list[tuple[list[int], bool, bool]] = []
        self.count = 0
        self.sequence = 0

    def record(self) -> Record:
        """The next record."""
        self.count += 1
        return Record(kind="TEST", at=self.count, body=b"")

    @rule(size=st.integers(0, 3), sync=st.booleans())
    def append(self, size: int, sync: bool) -> None:
        """Append some records, or a barrier."""
        records = [self.record() for _ in range(size)]
        ticket = self.journal.append(records, sync=sync)
        self.sequence += size
        assert ticket.sequence == self.sequence
        outstanding = sum(len(numbers) for numbers, _sync, _is_snapshot in self.waiting)
        if size or outstanding or (sync and self.unsynced):
            self.waiting.append(([one.at for one in records], sync, False))

    @rule()
    def snapshot(self) -> None:
        """Replace the past."""
        state = self.record()
        self.sequence += 1
        assert self.journal.snapshot(state).sequence == self.sequence
        self.waiting.append(([state.at], True, True))

    @precondition(lambda self: self.waiting)
    @rule()
    def write(self) -> None:
        """Store all that waits."""
        self.journal.write()
        for numbers, _sync, is_snapshot in self.waiting:
            self.written = numbers if is_snapshot else self.written + numbers
        synced = any(sync for _numbers, sync, _is_snapshot in self.waiting)
        appended = sum(len(numbers) for numbers, _sync, _is_snapshot in self.waiting)
        self.unsynced = 0 if synced else self.unsynced + appended
        self.waiting = []

    @rule(power=st.booleans(), kept=st.integers(0, 2))
    def crash(self, power: bool, kept: int) -> None:
        """End the owner, perhaps with the power, and start a successor."""
        self.journal.crash()
        if power:
            self.disk.lose_power(kept=kept)
            lost = max(0, self.unsynced - kept)
            self.written = self.written[: len(self.written) - lost]
        self.waiting = []
        self.journal = MemoryJournal(self.disk, auto=False)
        self.unsynced = 0
        self.sequence = self.journal.last_sequence

    @invariant()
    def replays_the_model(self) -> None:
        """What a replay gives is what the model has written."""
        self.disk.validate()
        assert [record.at for record in self.journal.replay()] == self.written
        assert self.disk.last_sequence - self.disk.synced == self.unsynced


TestJournal = JournalMachine.TestCase
