"""The index against one that keeps everything and thinks anew each time it is asked."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from asyncpool.journal import index as index_module
from asyncpool.journal.index import Index, Where

KEPT = 3

ids = st.sampled_from("abcdefg")
sizes = st.integers(1, 50)
replayed = st.booleans()


@dataclass
class Job:
    named: bool
    submitted: Where
    retries: list[Where] = field(default_factory=list)
    charges: tuple[int, int] = (0, 0)
    finished: Where | None = None
    ended_at: float = 0.0

    @property
    def lines(self) -> tuple[Where, ...]:
        if self.finished is not None:
            return (self.submitted, self.finished)
        return (self.submitted, *self.retries)


class IndexModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fewer = mock.patch.object(index_module, "UNNAMED_KEPT", KEPT)
        self.fewer.start()
        self.index = Index()
        self.jobs: dict[str, Job] = {}  # in the order of their submissions, then of their ends
        self.queues: dict[int, list[tuple[str, float]]] = {}
        self.clock = 0.0
        self.offset = 0

    def teardown(self) -> None:
        self.fewer.stop()

    def line(self, size: int) -> Where:
        self.clock += 1
        where = (self.offset, size)
        self.offset += size
        return where

    def take_from_workers(self, id: str) -> None:
        queues = {w: [sent for sent in jobs if sent[0] != id] for w, jobs in self.queues.items()}
        self.queues = {worker: jobs for worker, jobs in queues.items() if jobs}

    def unfinished(self, id: str) -> Job | None:
        job = self.jobs.get(id)
        return job if job is not None and job.finished is None else None

    @rule(id=ids, named=st.booleans(), size=sizes, replayed=replayed)
    def submit(self, id: str, named: bool, size: int, replayed: bool) -> None:
        where = self.line(size)
        if replayed:
            extra = {"named": True} if named else {}
            self.index.note({"kind": "submitted", "id": id, "time": 1.0, **extra}, where)
        else:
            self.index.submitted(id, named, where)
        self.take_from_workers(id)
        self.jobs.pop(id, None)
        self.jobs[id] = Job(named, where)

    @rule(id=ids, worker=st.integers(1, 3), replayed=replayed)
    def send(self, id: str, worker: int, replayed: bool) -> None:
        self.line(1)
        facts = {"worker": worker, "pid": 1000 + worker, "time": self.clock}
        if replayed:
            self.index.note({"kind": "sent", "ids": [id], **facts}, (0, 0))
        else:
            self.index.sent(id, worker, 1000 + worker, self.clock)
        if self.unfinished(id):
            self.take_from_workers(id)
            self.queues.setdefault(worker, []).append((id, self.clock))

    @rule(id=ids, replayed=replayed)
    def requeue(self, id: str, replayed: bool) -> None:
        if replayed:
            self.index.note({"kind": "requeued", "id": id}, (0, 0))
        else:
            self.index.requeued(id)
        self.take_from_workers(id)

    @rule(
        id=ids, size=sizes, crashes=st.integers(0, 3), errors=st.integers(0, 3), replayed=replayed
    )
    def retry(self, id: str, size: int, crashes: int, errors: int, replayed: bool) -> None:
        where = self.line(size)
        if replayed:
            facts = {"crashes": crashes, "errors": errors}
            self.index.note({"kind": "retried", "id": id, **facts}, where)
        else:
            self.index.retried(id, crashes, errors, where)
        self.take_from_workers(id)
        if job := self.unfinished(id):
            job.retries.append(where)
            job.charges = (crashes, errors)

    @rule(id=ids, size=sizes, replayed=replayed)
    def end(self, id: str, size: int, replayed: bool) -> None:
        where = self.line(size)
        if replayed:
            self.index.note({"kind": "finished", "id": id, "time": self.clock}, where)
        else:
            self.index.ended(id, self.clock, where)
        if job := self.unfinished(id):
            self.take_from_workers(id)
            job.finished, job.ended_at = where, self.clock
            self.jobs[id] = self.jobs.pop(id)
        unnamed = [key for key, job in self.jobs.items() if job.finished and not job.named]
        for key in unnamed[:-KEPT]:
            del self.jobs[key]

    @rule(kind=st.sampled_from(["opened", "closed"]))
    def change_owner(self, kind: str) -> None:
        self.index.note({"kind": kind}, (0, 0))
        self.queues.clear()

    @rule(age=st.integers(0, 30))
    def forget(self, age: int) -> None:
        self.index.forget_before(self.clock - age)
        for key, job in list(self.jobs.items()):
            if job.finished and job.named and job.ended_at < self.clock - age:
                del self.jobs[key]

    @rule(by=st.integers(-1, 1))
    def move(self, by: int) -> None:
        def there(where: Where) -> Where:
            return (where[0] + by, where[1])

        self.index = self.index.moved(
            {where: there(where) for job in self.jobs.values() for where in job.lines}
        )
        for job in self.jobs.values():
            job.submitted = there(job.submitted)
            job.retries = [there(where) for where in job.retries]
            job.finished = there(job.finished) if job.finished else None

    @invariant()
    def the_same_jobs(self) -> None:
        open_jobs = {key: job for key, job in self.jobs.items() if job.finished is None}
        ended = {key: job for key, job in self.jobs.items() if job.finished is not None}
        assert {
            key: (job.lines, job.named, (job.crashes, job.errors))
            for key, job in self.index.unfinished.items()
        } == {key: (job.lines, job.named, job.charges) for key, job in open_jobs.items()}
        assert {
            key: (job.lines, job.named, job.time) for key, job in self.index.finished.items()
        } == {key: (job.lines, job.named, job.ended_at) for key, job in ended.items()}

    @invariant()
    def the_same_bytes_matter(self) -> None:
        lines = [line for job in self.jobs.values() for line in job.lines]
        assert self.index.live == sum(size for _, size in lines)

    @invariant()
    def the_same_may_be_running(self) -> None:
        only = {1000 + worker: jobs[0] for worker, jobs in self.queues.items() if len(jobs) == 1}
        found = {pid: (key, sent_at) for key, _, pid, sent_at in self.index.running()}
        assert found == only
        several = [key for jobs in self.queues.values() if len(jobs) > 1 for key, _ in jobs]
        assert {id(job) for job in self.index.entangled()} == {
            id(self.index.unfinished[key]) for key in several
        }


IndexModel.TestCase.settings = settings(
    max_examples=int(os.environ.get("ASYNCPOOL_EXAMPLES", "60")),
    stateful_step_count=40,
)
TestIndexModel = IndexModel.TestCase
