"""A crew that does nothing before it is recorded: neither sends a job nor tells how one ended."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from .. import raised
from ..crew import Crew
from ..dispatch import decisions
from ..dispatch.decisions import Cancelled, NoWorkers, Refused, Resolve, Send
from ..dispatch.records import JobRecord, WorkerRecord
from ..errors import JournalWriteError
from . import endings, records
from .interrupts import Interrupts
from .recorder import Batch, Recorder

logger = logging.getLogger("asyncpool")

T = TypeVar("T")

DOUBT_SECONDS = 0.05
"""How often we look whether an interrupt has passed without ending the pool."""


class DurableCrew(Crew):
    """The worker processes of a pool that has a journal."""

    def __init__(
        self, *args: Any, interrupts: Interrupts, durable_results: bool, **named: Any
    ) -> None:
        super().__init__(*args, **named)
        self.recorder: Recorder
        self._interrupts = interrupts
        self._durable_results = durable_results
        self._held: dict[int, deque[Send]] = {}
        self._stops: dict[int, decisions.Stop] = {}  # for workers that are to get some jobs first
        self._untold = 0  # endings that are not recorded yet
        self._doubts: list[JobRecord] = []  # cancelled, maybe by an interrupt
        self._doubting = False
        self._abandoned = False
        self._perform[Resolve] = self._resolve
        self._perform[decisions.Recalled] = self._recalled
        self._perform[decisions.Resent] = self._resent
        self._perform[decisions.Departed] = self._departed

    def _note(self, kind: str, job: JobRecord, body: str, *facts: float) -> None:
        self.recorder.next.notes.append((kind, job.id, body, facts))
        self.recorder.arrange()

    # What waits for its record

    def _send(self, decision: Send) -> None:
        worker, now = decision.worker, time.time()
        serial, pid = worker.serial, worker.pid
        ids = [job.id for job in decision.jobs]
        batch = self.recorder.next
        batch.notes.append(
            ("sent", "", records.sent(ids, now, serial, pid), (ids, serial, pid, now))
        )
        batch.sends.append(decision)
        self._held.setdefault(serial, deque()).append(decision)
        self._dispatcher.flow.withheld(worker, len(decision.jobs))
        self.recorder.arrange()

    def _resolve(self, decision: Resolve) -> None:
        job, ending = decision.job, decision.ending
        if isinstance(ending, Cancelled):
            self._cancelled(job)
            self._audience.resolved(job, ending)  # the caller knows already
        elif isinstance(ending, (NoWorkers, Refused)):
            # No end to be recorded: the job may run in a later life, or was never accepted.
            self._audience.resolved(job, ending)
        elif self._note_end(job, ending):
            batch = self.recorder.next
            batch.endings.append(decision)
            batch.sync |= self._durable_results
            self._untold += 1
        else:
            self._audience.resolved(job, ending)

    def _note_end(self, job: JobRecord, ending: decisions.Ending) -> bool:
        now = time.time()
        try:
            body = endings.body(job, ending, now, self._wall_offset)
        except Exception as error:  # no memory for a large one: its caller gets it all the same
            logger.exception("the end of job %s cannot be recorded", job.id)
            self._audience.journal_failed(f"{type(error).__name__}: {raised.text(error)}")
            return False
        self._note("finished", job, body, now)
        return True

    def recorded(self, batch: Batch, error: JournalWriteError | None) -> None:
        """Do what waited for this batch, also if it could not be written."""
        now = self._loop.time()
        try:
            if error is None or not batch.refused:
                _each(batch.submitted, lambda job: self._accept(job, now))
            else:
                _each(batch.submitted, lambda job: self._decide(job, batch.refused, error, now))
            _each(batch.sends, lambda send: self._release(send, now))
            _each(batch.endings, self._tell)
        except BaseException:  # a Ctrl-C in this very moment: the rest still has to be done
            self._loop.call_soon(self.recorded, batch, error)
            raise
        if batch.is_incomplete:
            self._audience.journal_failed(str(error))
        self.act()
        self.check_all_gone()

    def _accept(self, job: JobRecord, now: float) -> None:
        job.accepted = True
        if not job.state.ended:  # if it is, it was cancelled meanwhile, and who waits was told
            self._dispatcher.accepted(job, now)
            self._audience.accepted(job)

    def _decide(
        self, job: JobRecord, refused: set[str], error: JournalWriteError, now: float
    ) -> None:
        if job.id not in refused:
            self._accept(job, now)
            return
        own = JournalWriteError(str(error), errno=error.errno)
        own.__cause__ = error.__cause__
        self._dispatcher.refused(job, own)

    def _release(self, send: Send, now: float) -> None:
        if not send.jobs:
            return  # they were taken back, or the worker died
        serial = send.worker.serial
        held = self._held[serial]
        held.popleft()
        self._dispatcher.flow.released(send.worker, len(send.jobs), now)
        super()._send(send)
        if not held:
            self._none_held(serial)

    def _none_held(self, serial: int) -> None:
        self._held.pop(serial, None)
        stop = self._stops.pop(serial, None)
        if stop is not None:
            super()._stop(stop)

    def _stop(self, decision: decisions.Stop) -> None:
        # It leaves after what it has, and must not be told so before it has it.
        if decision.worker.serial in self._held:
            self._stops[decision.worker.serial] = decision
        else:
            super()._stop(decision)

    def _tell(self, decision: Resolve) -> None:
        self._untold -= 1
        self._audience.resolved(decision.job, decision.ending)

    def _take_back(self, worker: WorkerRecord) -> int:
        held = self._take_held(worker.serial)
        if held:
            self._dispatcher.flow.released(worker, held, self._loop.time())
        return held + super()._take_back(worker)

    def _take_held(self, serial: int) -> int:
        """Drop what the worker was to get next; return how many jobs that were."""
        count = 0
        for send in self._held.pop(serial, ()):
            count += len(send.jobs)
            send.jobs.clear()
        self._none_held(serial)
        return count

    # What is noted, and waits for nothing

    def _departed(self, decision: decisions.Departed) -> None:
        self._take_held(decision.worker.serial)
        self._audience.noted(decision)

    def _recalled(self, decision: decisions.Recalled) -> None:
        self._requeued(decision.job)
        self._audience.noted(decision)

    def _resent(self, decision: decisions.Resent) -> None:
        job = decision.job
        if decision.ran:
            self._retried(job, decision.not_before)
        else:
            self._requeued(job)
        self._audience.noted(decision)

    def _requeued(self, job: JobRecord) -> None:
        self._note("requeued", job, records.requeued(job.id, time.time()))

    def _retried(self, job: JobRecord, not_before: float) -> None:
        wait = not_before - self._loop.time()
        now = time.time()
        body = records.retried(
            job.id,
            now,
            endings.attempt_text(job.attempts[-1], self._wall_offset),
            crashes=job.crashes,
            errors=job.errors,
            not_before=now + wait if wait > 0 else None,
        )
        self._note("retried", job, body, job.crashes, job.errors)

    # Cancellations

    def _cancelled(self, job: JobRecord) -> None:
        if self._abandoned:
            return
        if self._interrupts.is_possible():
            self._doubts.append(job)
            if not self._doubting:
                self._doubting = True
                self._loop.call_soon(self._resolve_doubts)
        else:
            self._note_end(job, Cancelled())

    def _resolve_doubts(self) -> None:
        self._doubting = False
        if self._doubts and self._interrupts.is_under_way() and not self.all_gone.done():
            self._doubting = True
            self._loop.call_later(DOUBT_SECONDS, self._resolve_doubts)
        else:
            self.settle_doubts()

    def settle_doubts(self) -> None:
        """Record the cancellations that no interrupt brought along, and forget the others."""
        doubts, self._doubts = self._doubts, []
        if not (self._abandoned or self._interrupts.is_under_way()):
            for job in doubts:
                self._note_end(job, Cancelled())

    # The end

    def check_all_gone(self) -> None:
        """Complete `all_gone` if the pool is over and every ending was told."""
        if not self._untold:
            super().check_all_gone()

    def abandon(self) -> None:
        """Kill all processes now, and record no end: what is unfinished will come back."""
        self._abandoned = True
        super().abandon()


def _each(items: list[T], do: Callable[[T], None]) -> None:
    """Do all; if one raises, those that were begun are gone from the list."""
    done = 0
    try:
        for item in items:
            done += 1
            do(item)
    finally:
        del items[:done]
