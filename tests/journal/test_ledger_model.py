"""A ledger through random notes, compactions, deaths and reopenings, against a plain dict."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from asyncpool.journal import index as index_module
from asyncpool.journal import ledger as ledger_module
from asyncpool.journal import records
from asyncpool.journal.ledger import Ledger, Note
from asyncpool.journal.options import Journal

from .failing import FailingDisk, LazyDisk, dying
from .notes import CLOSED, finished, requeued, retried, sent, submitted

ids = st.sampled_from("abcdef")
KEPT = 3


@dataclass
class Job:
    named: bool
    payload: bytes
    crashes: int = 0
    errors: int = 0
    value: bytes | None = None

    @property
    def ended(self) -> bool:
        return self.value is not None


@dataclass
class Model:
    """What a journal must know; `sent` has each worker's jobs that have not come back."""

    jobs: dict[str, Job] = field(default_factory=dict)
    sent: dict[int, list[str]] = field(default_factory=dict)

    def unfinished(self) -> list[str]:
        return [key for key, job in self.jobs.items() if not job.ended]

    def take_back(self, id: str) -> None:
        for jobs in self.sent.values():
            if id in jobs:
                jobs.remove(id)

    def end(self, id: str, value: bytes) -> None:
        self.take_back(id)
        job = self.jobs[id] = self.jobs.pop(id)  # they are kept in the order of their ends
        job.value = value
        unnamed = [key for key, job in self.jobs.items() if job.ended and not job.named]
        for key in unnamed[:-KEPT]:
            del self.jobs[key]

    def owner_died(self) -> None:
        for jobs in self.sent.values():
            if len(jobs) == 1:  # of several, nobody knows which was running
                self.jobs[jobs[0]].crashes += 1
        self.sent.clear()


class LedgerModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patches = [
            mock.patch.object(index_module, "UNNAMED_KEPT", KEPT),
            mock.patch.object(ledger_module, "BATCH", 500),
        ]
        for patch in self.patches:
            patch.start()
        self.folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self.folder.name) / "jobs.log")
        self.ledger = self.opened()
        self.model = Model()

    def teardown(self) -> None:
        self.ledger.close()
        self.folder.cleanup()
        for patch in self.patches:
            patch.stop()

    def opened(self) -> Ledger:
        return Ledger.open(Journal(self.path, _disk=LazyDisk()))

    def write(self, *notes: Note) -> None:
        self.ledger.write(notes, sync=False)

    def pick(self, number: int) -> str:
        unfinished = self.model.unfinished()
        return unfinished[number % len(unfinished)]

    def some_are_unfinished(self) -> bool:
        return bool(self.model.unfinished())

    @rule(id=ids, named=st.booleans(), payload=st.binary(max_size=300))
    def submit(self, id: str, named: bool, payload: bytes) -> None:
        if id in self.model.unfinished():
            return
        self.write(submitted(id, named=named, payload=payload))
        self.model.jobs.pop(id, None)
        self.model.jobs[id] = Job(named, payload)

    @rule(count=st.integers(1, 3), worker=st.integers(1, 2))
    def send(self, count: int, worker: int) -> None:
        busy = [key for jobs in self.model.sent.values() for key in jobs]
        keys = [key for key in self.model.unfinished() if key not in busy][:count]
        if keys:
            self.write(sent(*keys, worker=worker))
            self.model.sent.setdefault(worker, []).extend(keys)

    @precondition(some_are_unfinished)
    @rule(number=st.integers(0, 5))
    def requeue(self, number: int) -> None:
        key = self.pick(number)
        self.write(requeued(key))
        self.model.take_back(key)

    @precondition(some_are_unfinished)
    @rule(number=st.integers(0, 5), crashed=st.booleans())
    def retry(self, number: int, crashed: bool) -> None:
        key = self.pick(number)
        job = self.model.jobs[key]
        job.crashes += crashed
        job.errors += not crashed
        self.write(retried(key, crashes=job.crashes, errors=job.errors))
        self.model.take_back(key)

    @precondition(some_are_unfinished)
    @rule(number=st.integers(0, 5), value=st.binary(max_size=300))
    def end(self, number: int, value: bytes) -> None:
        key = self.pick(number)
        self.write(finished(key, value, time=1e11))
        self.model.end(key, value)

    @rule()
    def compact(self) -> None:
        self.ledger.compact()

    @rule()
    def close_and_reopen(self) -> None:
        self.write(CLOSED)
        self.ledger.close()
        self.model.sent.clear()
        self.ledger = self.opened()

    @rule(torn=st.sampled_from([b"", b"{", b'{"seq":7,"kind":"finished","id":"a"', b"\0" * 600]))
    def die_and_reopen(self, torn: bytes) -> None:
        self.ledger.close()
        with open(self.path, "ab") as file:
            file.write(torn)
        self.model.owner_died()
        self.ledger = self.opened()

    @rule(call=st.integers(0, 3))  # to write, to sync, to replace, to sync the directory
    def die_while_compacting(self, call: int) -> None:
        self.ledger.close()
        self.model.owner_died()
        disk = FailingDisk()
        self.ledger = Ledger.open(Journal(self.path, _disk=disk))
        disk.dies_at = len(disk.calls) + call
        with dying():
            self.ledger.compact()
        self.ledger.close()
        self.ledger = self.opened()

    @invariant()
    def the_same_unfinished_jobs(self) -> None:
        found = {}
        for key, job in self.ledger.index.unfinished.items():
            payload = records.unpacked(self.ledger.read(job.submitted)["payload"])
            found[key] = Job(job.named, payload, job.crashes, job.errors)
        jobs = self.model.jobs
        assert found == {key: jobs[key] for key in self.model.unfinished()}
        assert list(found) == self.model.unfinished(), "not in the order of their submission"

    @invariant()
    def the_same_ends(self) -> None:
        found = {}
        for key in self.ledger.index.finished:
            both = self.ledger.read_end(key)
            assert both is not None
            payload, value = (records.unpacked(record["payload"]) for record in both)
            found[key] = (both[0].get("named", False), payload, value)
        jobs = {key: job for key, job in self.model.jobs.items() if job.ended}
        assert found == {key: (job.named, job.payload, job.value) for key, job in jobs.items()}

    @invariant()
    def the_file_is_as_large_as_it_says(self) -> None:
        assert os.path.getsize(self.path) == self.ledger.size


LedgerModel.TestCase.settings = settings(
    max_examples=int(os.environ.get("ASYNCPOOL_EXAMPLES", "40")),
    stateful_step_count=30,
)
TestLedgerModel = LedgerModel.TestCase
