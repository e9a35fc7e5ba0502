"""The recorder: gathers what is to be written down, and tells the keeper when it is there.

What must not happen before its record exists is held in the same batch as the record: jobs that
wait to be accepted or sent, endings that wait to be told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from ..dispatch.decisions import Resolve, Send
from ..dispatch.records import JobRecord
from ..errors import JournalWriteError
from .ledger import Ledger, Note, Unwritten
from .scribe import Scribe

logger = logging.getLogger("asyncpool")

SYNC_SECONDS = 1.0
"""How long what was written without an fsync may wait for the next one, if no job brings it."""

BATCH_NOTES = 2_000
"""How much is written, and then told to the loop, at a time: a burst must not stall the others."""

OWED_KEPT = 100_000
"""How many notes are kept while the disk takes none; without the older ones jobs may run again."""


@dataclass(slots=True)
class Batch:
    """What is written at once, and all that waits for it."""

    notes: list[Note] = field(default_factory=list)
    submitted: list[JobRecord] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    endings: list[Resolve] = field(default_factory=list)
    waiters: list[asyncio.Future[None]] = field(default_factory=list)
    sync: bool = False

    # What is known when it has been written, as far as that went

    owed: int = 0
    """How many of the first notes had failed before."""
    refused: set[str] = field(default_factory=set)
    """The ids of the submissions that failed."""
    is_incomplete: bool = False
    """Whether something else failed."""


class Keeper(Protocol):
    """Who held back what is recorded now."""

    def recorded(self, batch: Batch, error: JournalWriteError | None) -> None:
        """The batch was written, and with `sync` is on the disk; or some of it failed."""


class Recorder:
    """The loop's side of the journal."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, scribe: Scribe, ledger: Ledger, keeper: Keeper
    ) -> None:
        self.next = Batch()
        """What is gathered for the next write; whoever adds to it calls `arrange`."""
        self._loop = loop
        self._scribe = scribe
        self._ledger = ledger
        self._keeper = keeper
        self._full: deque[Batch] = deque()  # gathered before that
        self._at_work: Batch | None = None
        self._arranged = False
        self._owed: list[Note] = []
        self._unsynced = False
        self._failing = False
        self._timer: asyncio.TimerHandle | None = None

    def arrange(self) -> None:
        """Let what is gathered be written: in the next turn of the loop, or after this batch."""
        if len(self.next.notes) >= BATCH_NOTES:
            self._full.append(self.next)
            self.next = Batch()
        if not self._arranged and self._at_work is None:
            self._arranged = True
            self._loop.call_soon(self._hand_over)

    def flushed(self, *, sync: bool = False) -> asyncio.Future[None]:
        """Return what is done when all noted so far is written, or has failed; `sync`: on disk."""
        waiter = self._loop.create_future()
        self.next.waiters.append(waiter)
        self.next.sync |= sync
        self.arrange()
        return waiter

    def _hand_over(self) -> None:
        self._arranged = False
        if self._full:
            batch = self._full.popleft()
        else:
            batch, self.next = self.next, Batch()
        self._at_work = batch
        if self._owed:
            batch.notes[:0] = self._owed
            batch.owed, self._owed = len(self._owed), []
        if not batch.notes and not (batch.sync and self._unsynced):
            self._written(None)
            return
        self._scribe.write(self._ledger, batch.notes, self._written, sync=batch.sync)

    def _written(self, unwritten: Unwritten | None) -> None:
        batch, self._at_work = self._at_work, None
        assert batch is not None
        error = None
        if unwritten is not None:
            error = unwritten.error
            self._failed(batch, unwritten)
        else:
            self._failing = False
            if batch.notes or batch.sync:
                self._unsynced = not batch.sync
        if (self._unsynced or self._owed) and self._timer is None:
            self._timer = self._loop.call_later(SYNC_SECONDS, self._sync_late)
        for waiter in batch.waiters:
            if not waiter.done():
                waiter.set_result(None)
        try:
            self._keeper.recorded(batch, error)
        finally:
            if self._full or self.next.notes or self.next.waiters or self.next.sync:
                self.arrange()

    def _failed(self, batch: Batch, unwritten: Unwritten) -> None:
        """Owe what others rely on; what nobody was promised is refused."""
        error, lost = unwritten
        if not self._failing:
            self._failing = True
            logger.error("%s", error)
        refused = batch.refused = {note[1] for note in lost if note[0] == "submitted"}
        owed = [note for note in lost if note[1] not in refused]
        known = set(map(id, batch.notes[: batch.owed]))
        batch.is_incomplete = any(id(note) not in known for note in owed)
        if self._ledger.is_poisoned:
            self._unsynced = False
            return
        self._owed = owed[-OWED_KEPT:]
        if len(lost) < len(batch.notes):
            self._unsynced = not batch.sync
        if refused:
            for later in (*self._full, self.next):
                later.notes = [note for note in later.notes if note[1] not in refused]

    def _sync_late(self) -> None:
        self._timer = None
        if self._unsynced or self._owed:
            self.next.sync = True
            self.arrange()

    def close(self) -> None:
        """Give back the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
