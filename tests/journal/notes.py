"""What a recorder hands to the ledger: notes of things that happened to jobs."""

from __future__ import annotations

from asyncpool.journal import records
from asyncpool.journal.ledger import Note
from asyncpool.retry import Retry

CLOSED: Note = ("closed", "", records.closed(9.0), ())


def submitted(id: str, *, named: bool = False, payload: bytes = b"") -> Note:
    body = records.submitted(
        id=id,
        named=named,
        fn_name="module.function",
        time=1.0,
        priority=0,
        deadline=None,
        not_before=None,
        timeout=None,
        retry=Retry(),
        function=b"a function",
        payload=payload,
    )
    return "submitted", id, body, (named,)


def sent(*ids: str, worker: int, pid: int = 77, time: float = 2.0) -> Note:
    return "sent", "", records.sent(list(ids), time, worker, pid), (list(ids), worker, pid, time)


def requeued(id: str) -> Note:
    return "requeued", id, records.requeued(id, 3.0), ()


def retried(id: str, *, crashes: int, errors: int = 0) -> Note:
    attempt = records.attempt(crashes + errors, 77, 2.0, 3.0, "crashed", None, 11)
    body = records.retried(id, 4.0, attempt, crashes=crashes, errors=errors)
    return "retried", id, body, (crashes, errors)


def finished(id: str, value: bytes = b"", *, time: float = 5.0) -> Note:
    attempt = records.attempt(1, 77, 2.0, time, "done", None, None)
    body = records.finished(id, time, "done", attempt, records.value(value))
    return "finished", id, body, (time,)
