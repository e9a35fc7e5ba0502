"""Journals with jobs in every state, written by the real ledger, and commands to read them."""

from __future__ import annotations

from pathlib import Path

from asyncpool.cli import main
from asyncpool.journal import records
from asyncpool.journal.ledger import Ledger, Note
from asyncpool.journal.lines import Record
from asyncpool.journal.options import Journal
from asyncpool.journal.reading import Line, Reading
from asyncpool.retry import Retry

NOON = 1_790_000_000.0
SEGFAULT = {"signal": 11, "exit_code": None, "stack": None, "stderr": "", "oom": None, "why": ""}


def submitted(id: str, *, function: str = "chores.paint", payload: bytes = b"") -> Note:
    body = records.submitted(
        id=id,
        named=True,
        fn_name=function,
        time=NOON,
        priority=0,
        deadline=None,
        not_before=None,
        timeout=None,
        retry=Retry(),
        function=payload,
        payload=payload,
    )
    return "submitted", id, body, (True,)


def sent(*ids: str, worker: int = 0) -> Note:
    who, pid = list(ids), 4000 + worker
    return "sent", "", records.sent(who, NOON + 1, worker, pid), (who, worker, pid, NOON + 1)


def retried(id: str) -> Note:
    body = records.retried(id, NOON + 2, attempt("crashed"), crashes=1, errors=0)
    return "retried", id, body, (1, 0)


def finished(id: str, state: str, outcome: str, *attempts: str) -> Note:
    body = records.finished(id, NOON + 3, state, ",".join(attempts), outcome)
    return "finished", id, body, (NOON + 3,)


def done(id: str) -> Note:
    return finished(id, "done", records.value(b"42"), attempt("done"))


def failed(id: str, said: str) -> Note:
    return finished(id, "failed", records.error(b"", said), attempt("error"))


def attempt(outcome: str) -> str:
    return records.attempt(1, 4000, NOON + 1, NOON + 2, outcome, None, None)


def write(path: Path, *notes: Note) -> Ledger:
    """Return the ledger, open, of a new journal with these notes."""
    ledger = Ledger.open(Journal(path))
    ledger.write(notes, sync=True)
    return ledger


def a_day(path: Path) -> None:
    """Write a journal with a job in each state, whose owner died over two of them."""
    overrun = records.overrun(2.5, SEGFAULT, 4000)
    crashed = records.crash(SEGFAULT, 4000, 0.5)
    everyone = ["done", "failed", "crashed", "late", "stopped", "again", "running", "behind", "new"]
    write(
        path,
        *map(submitted, everyone),
        *[sent("done"), done("done")],
        *[sent("failed"), failed("failed", "ValueError: no paint\nat all")],
        *[sent("crashed"), finished("crashed", "failed", crashed, *[attempt("crashed")] * 3)],
        *[sent("late"), finished("late", "failed", overrun, attempt("timeout"))],
        finished("stopped", "cancelled", records.CANCELLED),
        *[sent("again"), retried("again")],
        *[sent("running", "behind"), sent("again", worker=1)],
    ).close()


def lines(path: Path) -> list[Line]:
    """Return what `Reading` makes of the journal."""
    return list(Reading([path.read_bytes()], str(path)))


def accepted(data: bytes) -> list[bytes]:
    """Return the lines of a journal that is well; fails if it is not."""
    reading = Reading([data], "jobs.log")
    found = [data[offset : offset + size] for _, offset, size in reading]
    assert reading.tail is None
    return found


def find(path: Path, kind: str, id: str | None = None) -> Line:
    """Return the last line of that kind."""
    found = [line for line in lines(path) if _is(line.record, kind, id)]
    return found[-1]


def _is(record: Record, kind: str, id: str | None) -> bool:
    return record["kind"] == kind and id in (None, record.get("id"))


def damage(path: Path, offset: int) -> None:
    """Change one byte."""
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def run(verb: str, path: Path, *flags: str) -> int:
    return main(["journal", verb, str(path), *flags])


def states(shown: str) -> dict[str, str]:
    """Return the state of each job that `show` told of, in its order."""
    rows = [line.split() for line in shown.splitlines()[1:-1]]
    return {row[4]: row[0] for row in rows}
