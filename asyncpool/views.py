"""Snapshots for users of what the dispatcher keeps for itself.

The dispatcher lives in the loop's time; `wall_offset` turns that into seconds since the epoch.
"""

from __future__ import annotations

from .dispatch.dispatcher import Dispatcher
from .dispatch.records import JobRecord, Phase, WorkerRecord
from .jobs import Attempt, JobInfo, JobState, Stats, WorkerInfo
from .narrator import Narrator
from .processes.memory import resident_bytes


def attempts_of(job: JobRecord, wall_offset: float) -> tuple[Attempt, ...]:
    """Return the attempts of a job."""
    return tuple(
        Attempt(
            number=attempt.number,
            pid=attempt.pid,
            started_at=attempt.started_at + wall_offset,
            ended_at=None if attempt.ended_at is None else attempt.ended_at + wall_offset,
            outcome=attempt.outcome,
            exit_code=attempt.exit_code,
            signal=attempt.signal,
        )
        for attempt in job.attempts
    )


def job_info(job: JobRecord, wall_offset: float) -> JobInfo:
    """Return a snapshot of an unfinished job."""
    running = job.state is JobState.RUNNING
    return JobInfo(
        id=job.id,
        fn_name=job.function.name,
        state=job.state,
        attempt=len(job.attempts),
        pid=job.worker.pid if job.worker is not None else None,
        priority=job.priority,
        submitted_at=job.submitted_at + wall_offset,
        started_at=job.attempts[-1].started_at + wall_offset if running else None,
    )


def worker_info(worker: WorkerRecord) -> WorkerInfo:
    """Return a snapshot of a ready worker."""
    return WorkerInfo(
        pid=worker.pid,
        state="idle" if worker.idle else "busy",
        job_id=worker.running.id if worker.running is not None else None,
        jobs_done=worker.jobs_done,
        rss=resident_bytes(worker.pid),
    )


def stats(dispatcher: Dispatcher, told: Narrator) -> Stats:
    """Return the counters of a pool."""
    phases = [worker.phase for worker in dispatcher.workers.values()]
    running = sum(
        worker.running is not None and worker.running.number in dispatcher.unfinished
        for worker in dispatcher.workers.values()
    )
    return Stats(
        pending=len(dispatcher.unfinished) - running,
        running=running,
        done=told.done,
        failed=told.failed,
        cancelled=told.cancelled,
        crashes=told.crashes,
        resent=told.resent,
        workers=phases.count(Phase.READY),
        spares=phases.count(Phase.SPARE),
    )
