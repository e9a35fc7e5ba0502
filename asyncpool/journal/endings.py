"""How jobs end and what their attempts were, on the way into the journal and back out of it."""

from __future__ import annotations

from typing import Any

from .. import raised
from ..dispatch.decisions import Cancelled, Crash, Ending, Failure, Overrun, Value
from ..dispatch.records import AttemptRecord, Death, JobRecord
from ..jobs import JobState, Outcome
from . import records
from .lines import Record


def body(job: JobRecord, ending: Ending, now: float, wall_offset: float) -> str:
    """Return the `finished` record of a job; `now` is in seconds since the epoch."""
    attempts = ",".join([attempt_text(attempt, wall_offset) for attempt in job.attempts])
    return records.finished(job.id, now, job.state.value, attempts, _outcome(ending))


def attempt_text(attempt: AttemptRecord, wall_offset: float) -> str:
    """Return an attempt as it stands in records."""
    ended_at = attempt.ended_at
    return records.attempt(
        attempt.number,
        attempt.pid,
        attempt.started_at + wall_offset,
        None if ended_at is None else ended_at + wall_offset,
        attempt.outcome.value,
        attempt.exit_code,
        attempt.signal,
    )


def _outcome(ending: Ending) -> str:
    if type(ending) is Value:
        return records.value(ending.payload)
    if isinstance(ending, Failure):
        _, name, message, _, _ = raised.decode(ending.error)
        return records.error(ending.error, f"{name}: {message}" if message else name)
    if isinstance(ending, Crash):
        return records.crash(_death_fields(ending.death), ending.pid, ending.ran_for)
    if isinstance(ending, Overrun):
        death = None if ending.death is None else _death_fields(ending.death)
        return records.overrun(ending.timeout, death, ending.pid)
    if isinstance(ending, Cancelled):
        return records.CANCELLED
    raise TypeError(f"{ending!r} is no ending that is recorded")


def _death_fields(death: Death) -> dict[str, Any]:
    return {name: getattr(death, name) for name in Death.__slots__}


# Back


def ending_of(finished: Record) -> Ending:
    """Return the ending that a `finished` record holds."""
    outcome = finished["outcome"]
    if outcome == "value":
        return Value(records.unpacked(finished["payload"]))
    if outcome == "error":
        return Failure(records.unpacked(finished["payload"]))
    if outcome == "crashed":
        return Crash(Death(**finished["death"]), finished["pid"], finished["ran_for"])
    if outcome == "timeout":
        death = finished["death"]
        killed = None if death is None else Death(**death)
        return Overrun(finished["timeout"], killed, finished["pid"])
    return Cancelled()


def state_of(finished: Record) -> JobState:
    """Return the state that a `finished` record holds."""
    return JobState(finished["state"])


def attempt_of(fields: list[Any], wall_offset: float) -> AttemptRecord:
    """Return an attempt of a record, in the loop's time."""
    number, pid, started_at, ended_at, outcome, *cause = fields
    attempt = AttemptRecord(number, pid, started_at - wall_offset)
    attempt.outcome = Outcome(outcome)
    if ended_at is not None:
        attempt.ended_at = ended_at - wall_offset
    if cause:
        attempt.exit_code, attempt.signal = cause
    return attempt
