"""The scribe does one thing after the other, in a thread of its own, and tells the loop of each."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from asyncpool.errors import JournalWriteError
from asyncpool.journal.ledger import Ledger, Note, Unwritten
from asyncpool.journal.options import Journal
from asyncpool.journal.scribe import Scribe

from .failing import FailingDisk
from .notes import submitted


@pytest.fixture
async def scribe() -> AsyncIterator[Scribe]:
    scribe = Scribe(asyncio.get_running_loop())
    yield scribe
    await scribe.end(lambda: None)


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


@pytest.fixture
async def ledger(scribe: Scribe, disk: FailingDisk, tmp_path: Path) -> AsyncIterator[Ledger]:
    journal = Journal(tmp_path / "jobs.log", _disk=disk)
    ledger: Ledger = await scribe.call(Ledger.open, journal)
    yield ledger
    await scribe.call(ledger.close)


class Answers:
    """What the scribe told of each write, in the order in which it did."""

    def __init__(self) -> None:
        self.errors: list[JournalWriteError | None] = []
        self.threads: set[threading.Thread] = set()
        self.came = asyncio.Event()

    def __call__(self, unwritten: Unwritten | None) -> None:
        self.errors.append(unwritten.error if unwritten is not None else None)
        self.threads.add(threading.current_thread())
        self.came.set()


async def test_a_call_gives_what_the_function_gives(scribe: Scribe) -> None:
    thread = await scribe.call(threading.current_thread)
    assert thread is not threading.current_thread()
    assert thread.name == "asyncpool journal"
    assert await scribe.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await scribe.call(divmod, 7, 0)


async def test_one_after_the_other(scribe: Scribe) -> None:
    done: list[int] = []
    calls = [scribe.call(done.append, number) for number in range(100)]
    await asyncio.gather(*calls)
    assert done == list(range(100))


async def test_what_was_cancelled_is_done_all_the_same(scribe: Scribe) -> None:
    go, done = threading.Event(), list[str]()
    waiting = scribe.call(go.wait)
    cancelled = scribe.call(done.append, "cancelled")
    failing = scribe.call(divmod, 1, 0)
    cancelled.cancel()
    failing.cancel()
    go.set()
    assert await waiting
    assert await scribe.call(done.copy) == ["cancelled"]


async def test_a_write_is_told_when_it_is_done(scribe: Scribe, ledger: Ledger) -> None:
    told = Answers()
    scribe.write(ledger, [submitted("a")], told, sync=True)
    scribe.write(ledger, [submitted("b")], told, sync=False)
    scribe.write(ledger, [], told, sync=True)
    assert told.errors == []
    assert await scribe.call(lambda: list(ledger.index.unfinished)) == ["a", "b"]
    assert told.errors == [None, None, None]
    assert told.threads == {threading.current_thread()}


async def test_only_what_is_to_be_synced_is(
    scribe: Scribe, ledger: Ledger, disk: FailingDisk
) -> None:
    told = Answers()
    calls = []
    for notes, sync in (([submitted("a")], True), ([submitted("b")], False), ([], True)):
        disk.calls.clear()
        scribe.write(ledger, notes, told, sync=sync)
        calls.append(await scribe.call(disk.calls.copy))
    assert calls == [["write", "sync"], ["write"], ["sync"]]


@pytest.mark.parametrize("notes", [[submitted("a")], []])
async def test_a_failure_is_told(
    scribe: Scribe, ledger: Ledger, disk: FailingDisk, notes: Sequence[Note]
) -> None:
    disk.errors["sync"] = errno.EIO
    told = Answers()
    scribe.write(ledger, notes, told, sync=True)
    await scribe.call(lambda: None)
    [error] = told.errors
    assert error is not None
    assert error.errno == errno.EIO


async def test_a_bug_does_not_look_like_a_durable_write(scribe: Scribe, ledger: Ledger) -> None:
    told = Answers()
    nonsense: list[Note] = [("submitted", "a", '"kind":"\ud800"', ())]  # cannot be encoded
    scribe.write(ledger, nonsense, told, sync=True)
    scribe.write(ledger, [submitted("b")], told, sync=True)
    assert await scribe.call(lambda: list(ledger.index.unfinished)) == ["b"]
    error, nothing = told.errors
    assert nothing is None
    assert isinstance(error, JournalWriteError)
    assert "the journal failed: UnicodeEncodeError" in str(error)
    assert isinstance(error.__cause__, UnicodeEncodeError)


async def test_a_write_is_told_before_the_file_is_tidied(
    scribe: Scribe,
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    told, tidied = Answers(), list[int]()
    go = threading.Event()

    def tidy() -> None:
        go.wait()
        tidied.append(1)
        raise ZeroDivisionError

    monkeypatch.setattr(ledger, "tidy", tidy)
    scribe.write(ledger, [submitted("a")], told, sync=True)
    await told.came.wait()
    assert tidied == []
    go.set()
    scribe.write(ledger, [], told, sync=True)  # of which nothing can have grown
    assert await scribe.call(tidied.copy) == [1]
    assert told.errors == [None, None]
    assert "the journal's thread met an error" in caplog.text


async def test_its_end_comes_after_all_else() -> None:
    scribe = Scribe(asyncio.get_running_loop())
    done: list[str] = []
    first = scribe.call(done.append, "first")
    await scribe.end(lambda: done.append("last"))
    assert done == ["first", "last"]
    assert first.done()
    assert "asyncpool journal" not in {thread.name for thread in threading.enumerate()}


def test_nobody_is_told_when_the_loop_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.new_event_loop()
    scribe, done = Scribe(loop), threading.Event()
    go = threading.Event()

    async def call() -> None:
        scribe.call(go.wait)
        scribe.call(done.set)

    loop.run_until_complete(call())
    loop.close()
    go.set()
    assert done.wait(20)
    scribe._orders.put(None)
    scribe._thread.join()
    assert caplog.records == []
