"""Turns what the pool does into events and counters."""

from __future__ import annotations

from typing import Any

from . import events, raised
from .dispatch import decisions
from .dispatch.decisions import Decision
from .dispatch.records import JobRecord, Phase, Reason
from .hub import EventHub
from .jobs import JobState


class Narrator:
    """Counts what becomes of jobs and workers, and tells those who listen."""

    def __init__(self, hub: EventHub) -> None:
        self.done = 0
        self.failed = 0
        self.cancelled = 0
        self.crashes = 0
        self.resent = 0
        self._hub = hub
        self._now = hub.clock

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return self._hub.heard

    def submitted(self, job: JobRecord) -> None:
        """The pool took the job."""
        if self._hub.heard:
            self._hub.publish(events.JobSubmitted(**self._about(job)))

    def sent(self, job: JobRecord) -> None:
        """The job was written to a worker."""
        if not self._hub.heard:
            return
        about = self._about(job)
        about["attempt"] = job.next_attempt
        self._hub.publish(events.JobSent(**about))

    def started(self, job: JobRecord) -> None:
        """A worker acknowledged the job."""
        if self._hub.heard:
            self._hub.publish(events.JobStarted(**self._about(job)))

    def resolved(self, job: JobRecord, error: BaseException | None) -> None:
        """The job has ended."""
        state = job.state
        if state is JobState.DONE:
            self.done += 1
        elif state is JobState.FAILED:
            self.failed += 1
        else:
            self.cancelled += 1
        if self._hub.heard:
            text = None if error is None else f"{type(error).__name__}: {raised.text(error)}"
            self._hub.publish(events.JobFinished(**self._about(job), state=job.state, error=text))

    def journal_failed(self, why: str) -> None:
        """Something could not be recorded."""
        if self._hub.heard:
            self._hub.publish(events.JournalFailed(time=self._now(), error=why))

    def noted(self, decision: Decision) -> None:
        """Something else happened."""
        if isinstance(decision, decisions.Returned):
            self._returned(decision.job)
        elif isinstance(decision, decisions.Recalled):
            self._recalled(decision)
        elif isinstance(decision, decisions.Resent):
            self._resent(decision)
        elif isinstance(decision, decisions.Arrived):
            self._arrived(decision)
        elif isinstance(decision, decisions.Departed):
            self._departed(decision)

    def _returned(self, job: JobRecord) -> None:
        if self._hub.heard:
            outcome = job.attempts[-1].outcome
            self._hub.publish(events.JobReturned(**self._about(job), outcome=outcome))

    def _recalled(self, decision: decisions.Recalled) -> None:
        if self._hub.heard:
            about = self._about(decision.job)
            about["pid"] = decision.worker.pid
            self._hub.publish(events.JobRecalled(**about))

    def _resent(self, decision: decisions.Resent) -> None:
        self.resent += 1
        if self._hub.heard:
            about = self._about(decision.job)
            self._hub.publish(
                events.JobResent(**about, reason=decision.reason.value, charged=decision.charged)
            )

    def _arrived(self, decision: decisions.Arrived) -> None:
        if self._hub.heard:
            worker = decision.worker
            spare = worker.phase is Phase.SPARE
            self._hub.publish(events.WorkerStarted(time=self._now(), pid=worker.pid, spare=spare))

    def _departed(self, decision: decisions.Departed) -> None:
        worker, death = decision.worker, decision.death
        reason, job = decision.reason, decision.job
        if reason in (Reason.CRASHED, Reason.BROKEN) and job is not None:
            self.crashes += 1
        if self._hub.heard:
            self._hub.publish(
                events.WorkerExited(
                    time=self._now(),
                    pid=worker.pid or None,
                    exit_code=death.exit_code,
                    signal=death.signal,
                    reason=reason.value,
                    job_id=None if job is None else job.id,
                )
            )

    def _about(self, job: JobRecord) -> dict[str, Any]:
        """Return what every event about a job has."""
        if job.worker is not None:
            pid: int | None = job.worker.pid
        else:
            pid = job.attempts[-1].pid if job.attempts else None
        return {
            "time": self._now(),
            "job_id": job.id,
            "fn_name": getattr(job.function, "name", ""),
            "attempt": len(job.attempts),
            "pid": pid,
        }
