"""A world with a journal, in which the parent dies as well, and a new one goes on.

What is real: the dispatcher, the crew that waits for its records, the recorder, the records and
the index. The file is a list, and whoever holds the world decides when the disk answers, and how.
"""

from __future__ import annotations

import errno
import os
import time
from typing import Any

from asyncpool.dispatch import decisions as d
from asyncpool.dispatch.records import JobRecord
from asyncpool.errors import JournalWriteError
from asyncpool.journal import records, session
from asyncpool.journal.interrupts import Interrupts
from asyncpool.journal.ledger import Note, Unwritten, _charge
from asyncpool.journal.session import Session
from asyncpool.references import Call

from .simulated import Disk, Loop, Paper, SimulatedCrew
from .world import Function, Process, World

VOID = (d.Refused, d.NoWorkers)
"""Ends that are not recorded: the job never began, or may be tried again."""


class JournaledWorld(World):
    """Simulated workers and a simulated disk around a real dispatcher, crew and recorder."""

    def __init__(self, **options: int) -> None:
        self.paper = Paper()
        self.accepted_ids: set[str] = set()
        self.lives = 0
        super().__init__(**options)

    def _begin(self) -> None:
        super()._begin()
        self.lives += 1
        self.failures = 0  # of the disk in this life
        self._failing = False
        self.loop = Loop(self)
        self.disk = Disk()
        self.crew = SimulatedCrew(self, interrupts=Interrupts(None), durable_results=False)
        ledger: Any = self.paper
        scribe: Any = self.disk
        loop: Any = self.loop
        self.session = Session(scribe, ledger)
        self.crew.recorder = self.session.begin(loop, self.crew)

    def perform(self) -> None:
        self.crew.act()
        self.check()

    def check(self) -> None:
        self.untold = self.crew._untold
        super().check()

    def _hand_in(self, job: JobRecord, delay: float) -> None:
        job.id, job.named, job.accepted = f"job {job.number}", True, False
        job.function.name = "function"
        self.dispatcher.announced(job)
        self.session.submit(job, Call(b"", b""), delay)

    # The disk

    def turn(self) -> None:
        """Let the loop do what it was to do in its next turn."""
        self.loop.turn()
        self.check()

    def answer(self, *, well: bool = True, fits: int = 0) -> bool:
        """Let the disk write what it has, or fail; False: it had nothing.

        If it fails, each bit of `fits` tells of a note whether there is room for it.
        """
        if self.disk.order is None:
            return False
        (notes, told), self.disk.order = self.disk.order, None
        if well:
            self.paper.write(notes)
            told(None)
        else:
            self.failures += 1
            self._failing = True
            rest = [note for number, note in enumerate(notes) if not fits >> number & 1]
            self.paper.write([note for note in notes if note not in rest])
            error = JournalWriteError("no room", errno=errno.ENOSPC)
            told(Unwritten(error, rest) if rest else None)
            self._failing = False
        self.check()
        return True

    def write_all(self) -> None:
        """Let the disk work until nothing is left to be written."""
        while self.loop.soon or self.disk.order:
            self.turn()
            self.answer()
        self._check_journal()

    def _check_journal(self) -> None:
        """All that has happened and was written is what the journal says."""
        if not self.is_written or self.crew._abandoned:
            return
        index = self.paper.index
        for job in self.dispatcher.unfinished.values():
            found = index.unfinished[job.id]
            assert (found.crashes, found.errors) == (job.crashes, job.errors)
            with_it = [serial for serial, each in index.workers.items() if job.id in each.time]
            assert with_it == ([] if job.worker is None else [job.worker.serial])
        for number, endings in self.endings.items():
            ended = any(not isinstance(end, VOID) for end in endings)
            # What was cancelled before it was refused is in the journal as neither.
            assert self.jobs[number].id not in (index.unfinished if ended else index.finished)

    @property
    def is_written(self) -> bool:
        """Whether the journal has all that has happened."""
        recorder = self.crew.recorder
        pending = self.disk.order or recorder.next.notes or recorder._owed or self.crew._doubts
        return not pending

    @property
    def is_busy(self) -> bool:
        """Whether some worker has something to do."""
        return any(process.tickets or process.running for process in self.living)

    # What the crew tells

    def put_on_the_wire(self, send: d.Send) -> None:
        unfinished = self.paper.index.unfinished
        for job in send.jobs:
            assert job.accepted, f"{job!r} was sent before it was accepted"
            if not (self._failing or job.state.ended):
                assert unfinished[job.id].worker == send.worker.serial, "sent, but not recorded"
        self._perform(send)

    def accepted(self, job: JobRecord) -> None:
        """The crew says that the job is recorded."""
        assert job.id in self.paper.index.unfinished
        self.accepted_ids.add(job.id)

    def resolved(self, job: JobRecord, ending: d.Ending) -> None:
        """The crew tells how the job ended."""
        recorded = job.id in self.paper.index.finished
        if isinstance(ending, VOID):
            assert not recorded
        elif not isinstance(ending, d.Cancelled):
            assert recorded or self._failing, f"{job!r} was told to have ended before it was so"
        self._resolve(job, ending)

    def noted(self, decision: d.Decision) -> None:
        """Something else happened."""

    def sent(self, job: JobRecord) -> None:
        """The job is on the wire."""

    def journal_failed(self, why: str) -> None:
        """The crew says that the disk failed."""
        assert self.failures

    def begin(self, process: Process) -> bool:
        job = process.tickets[0] if process.tickets else None
        begun = super().begin(process)
        if begun and job is not None:
            assert job.id not in self.paper.index.finished, f"{job!r} has ended, and runs again"
        return begun

    # The end of a parent

    def crash(self, *, written: bool) -> None:
        """The parent dies, and all workers with it; what was being written may have been."""
        if written and self.disk.order is not None:
            self.paper.write(self.disk.order[0])
        self.paper = Paper(self.paper.records)
        running = list(self.paper.index.running())
        for job in self.paper.index.entangled():
            job.alone = True
        self._check_charges({job_id for job_id, *_ in running})
        now = time.time()
        opened: Note = ("opened", "", records.opened(os.getpid(), now), ())
        self.paper.write([opened, *(_charge(*suspect, now) for suspect in running)])
        for job_id, *_ in running:
            self.deaths_of[number_of(job_id)] += 1
        self._live_again()

    def _check_charges(self, charged: set[str]) -> None:
        """Whoever ran is charged, and nobody else, as far as the journal can know."""
        if self.failures:
            return
        index = self.paper.index
        for process in self.living:
            job = process.running
            if job is None or job.state.ended or job.id not in index.unfinished:
                continue
            suspects = index.workers[process.serial].time
            assert job.id in suspects, f"{job!r} runs, and is not suspected"
            # Of several that it had, it may have been any.
            assert charged & suspects.keys() == ({job.id} if len(suspects) == 1 else set())
            assert len(suspects) == 1 or index.unfinished[job.id].alone
        if self.is_written:
            waiting = [job for job in self.dispatcher.unfinished.values() if job.worker is None]
            assert not charged & {job.id for job in waiting}, "who waits was charged"

    def be_left(self) -> None:
        """An exception leaves the block: what is unfinished comes back, and is charged nothing."""
        came = {job.id for job in self.dispatcher.unfinished.values() if job.accepted}
        failed = self.failures
        crashes = {job.id: job.crashes for job in self.dispatcher.unfinished.values()}
        self.crew.abandon()
        self.write_all()
        self.paper = Paper([*self.paper.records, {"kind": "closed"}])
        assert not list(self.paper.index.running())
        self._live_again()
        assert failed or came <= {job.id for job in self.jobs.values()}
        for job in self.jobs.values():
            if not failed and job.id in crashes:
                assert job.crashes == crashes[job.id]

    def _live_again(self) -> None:
        """A new parent takes the journal."""
        index = self.paper.index
        known = index.unfinished.keys() | index.finished.keys()
        assert self.accepted_ids <= known, f"lost: {self.accepted_ids - known}"
        self._begin()
        self.dispatcher.opened(self.now)
        for found in self.session._read(list(index.unfinished)):
            self._recover(found)
        self.perform()
        assert self.jobs.keys() == {number_of(job_id) for job_id in index.unfinished}

    def _recover(self, found: session.Unfinished) -> None:
        function: Any = Function()
        number = number_of(found.id)
        job = session.job_record(found, number, function, b"", lambda: self.now)
        self.jobs[number], self.endings[number] = job, []
        assert job.crashes <= self.deaths_of[number], f"{job!r} was charged {job.crashes} crashes"
        assert job.crashes == sum(attempt.outcome == "crashed" for attempt in job.attempts)
        self.dispatcher.recovered(job, self.now)

    def let_everybody_work(self) -> None:
        super().let_everybody_work()
        self.write_all()


def number_of(id: str) -> int:
    """Return the number of the job of that id, in whatever life."""
    return int(id.partition(" ")[2])
