"""Journal records of jobs that do nothing, as a pool writes them, and whole journals of them."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator

from asyncpool.journal import records
from asyncpool.journal.ledger import Ledger, Note
from asyncpool.journal.lines import seal
from asyncpool.journal.options import Journal
from asyncpool.raised import PROTOCOL
from asyncpool.retry import DEFAULT_RETRY

from .workloads import noop

BATCH_JOBS = 1_000
TITLE_AND_OPENED = 2
SENT_TOGETHER = 50
"""How many jobs that do nothing a busy pool writes to a worker at once."""

_FUNCTION = pickle.dumps(noop, PROTOCOL)
_CALL = pickle.dumps(((), {}), PROTOCOL)
_RESULT = pickle.dumps(None, PROTOCOL)


def submitted(id: str, now: float) -> Note:
    """Return the note of a job that was accepted."""
    body = records.submitted(
        id=id,
        named=False,
        fn_name=noop.__qualname__,
        time=now,
        priority=0,
        deadline=None,
        not_before=None,
        timeout=60.0,
        retry=DEFAULT_RETRY,
        function=_FUNCTION,
        payload=_CALL,
    )
    return "submitted", id, body, (False,)


def sent(ids: list[str], now: float) -> Note:
    """Return the note of jobs that are about to be written to a worker."""
    worker, pid = 1, os.getpid()
    return "sent", "", records.sent(ids, now, worker, pid), (ids, worker, pid, now)


def finished(id: str, now: float) -> Note:
    """Return the note of a job that returned None."""
    attempt = records.attempt(1, os.getpid(), now, now, "done", None, None)
    body = records.finished(id, now, "done", attempt, records.value(_RESULT))
    return "finished", id, body, (now,)


def typical_line() -> bytes:
    """Return what accepting one job adds to a journal."""
    return seal(123_456, submitted("0123456789-123456", 1_796_643_579.735)[2])


def batches(jobs: int, *, together: int) -> Iterator[list[Note]]:
    """Yield the notes of that many jobs from submission to end, so many of them sent at once.

    All that is in one list would share a write, and those of submissions an fsync.
    """
    for first in range(0, jobs, BATCH_JOBS):
        ids = [f"0123456789-{number}" for number in range(first, min(first + BATCH_JOBS, jobs))]
        yield [submitted(each, time.time()) for each in ids]
        groups = [ids[start : start + together] for start in range(0, len(ids), together)]
        yield [sent(group, time.time()) for group in groups]
        yield [finished(each, time.time()) for each in ids]


def write_journal(path: str, *, lines: int, unfinished: int) -> None:
    """Write a journal of about so many records, of jobs sent one by one; the last never began."""
    ledger = Ledger.open(Journal(path))
    for batch in batches((lines - unfinished - TITLE_AND_OPENED) // 3, together=1):
        ledger.write(batch, sync=False)
    never = [submitted(f"unfinished-{number}", time.time()) for number in range(unfinished)]
    ledger.write(never, sync=True)
    ledger.close()
