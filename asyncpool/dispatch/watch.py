"""Looks after the workers: notices whatever one has been doing for too long."""

from __future__ import annotations

from . import pace
from .decisions import Recall
from .desk import Desk
from .flow import ACK_SECONDS, STALL_SECONDS
from .records import NEVER, Phase, Reason, WorkerRecord
from .roster import Roster
from .starts import HANGING

ACK_SECONDS_PER_BYTE = 1e-7
"""What a large job adds to `ACK_SECONDS`: the worker gathers it before it can begin."""


class Watch:
    """Condemns workers that hang, never begin, or overrun; takes waiting jobs from slow ones."""

    def __init__(self, desk: Desk, roster: Roster) -> None:
        self._desk = desk
        self._roster = roster

    def look_after_all(self, now: float) -> None:
        """Do what has become due, and ask to be woken for the rest."""
        for worker in self._roster:
            if worker.phase is Phase.STARTING:
                if self._overdue(worker.since + HANGING, now):
                    self._roster.condemn(worker, Reason.NOT_STARTED)
            elif worker.phase in (Phase.READY, Phase.LEAVING):
                self._look_after(worker, now)

    def _look_after(self, worker: WorkerRecord, now: float) -> None:
        if worker.running is None:
            has_jobs = len(worker.sent) > worker.unsent
            if has_jobs and self._overdue(worker.since + ack_patience(worker), now):
                self._roster.condemn(worker, Reason.UNRESPONSIVE)
        elif worker.expires_at != NEVER and self._overdue(worker.expires_at, now):
            self._roster.condemn(worker, Reason.TIMEOUT, worker.running)
        elif worker.sent and self._overdue(worker.since + STALL_SECONDS, now):
            pace.observe(worker.running.function, now - worker.since)
            self._desk.decide(Recall(worker))

    def _overdue(self, moment: float, now: float) -> bool:
        if moment <= now:
            return True
        self._desk.want(moment)
        return False


def ack_patience(worker: WorkerRecord) -> float:
    """Return how many seconds the worker may take to begin the next job that it was sent."""
    return ACK_SECONDS + len(worker.sent[0].payload) * ACK_SECONDS_PER_BYTE
