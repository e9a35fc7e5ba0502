"""The command line of journals: what is in one, whether it is well, and how to make it so."""

from __future__ import annotations

import argparse
import json
import os
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import JournalCorrupt, JournalError

if TYPE_CHECKING:  # what only some commands need is loaded by them
    from .reading import Tail
    from .survey import Entry, Survey

FAILED, BAD_USAGE = 1, 2

FOREVER = 100 * 365 * 86_400.0
"""How long `compact` remembers named jobs: how long the pool wants to, only the pool knows."""

CHUNK = 1 << 20
WIDEST_COLUMN = 40
LONGEST_NOTE = 200

DESCRIPTION = """\
Look into the journal of a pool, and mend it. Without the lock, so that it works
while a pool has the journal open: show, verify. With it: compact, repair.
"""

EPILOG = """\
examples:
  asyncpool journal show jobs.log
  asyncpool journal verify jobs.log || asyncpool journal repair jobs.log

exit codes:
  0 all is well, 1 damaged, in use, or failed, 2 no such file or bad usage
"""

SHOW = """\
List the jobs of a journal in the order of their submission: the state of each,
when it was submitted, how many attempts were made, and how it failed. Nothing
of a job is loaded or run. A pool may have the journal open meanwhile.
"""

SHOW_EPILOG = """\
With --json, each job is an object on a line of its own. Its times are seconds
since 1970; what is not known is null.

examples:
  asyncpool journal show jobs.log --unfinished
  asyncpool journal show jobs.log --json | jq 'select(.state == "failed").id'
"""

VERIFY = """\
Read a whole journal and tell whether it is well. Half a record at its end is:
it was never acknowledged, and the next pool that opens the journal cuts it off.
Damage before the end is not: a pool refuses to open such a journal.
"""

VERIFY_EPILOG = """\
example:
  asyncpool journal verify jobs.log

The exit code is 0 if a pool can open the journal and loses nothing by that.
"""

COMPACT = """\
Rewrite a journal without what does not matter any more. Pools do the same by
themselves, when it is worth it. What the next pool recovers stays the same.
"""

COMPACT_EPILOG = """\
example:
  asyncpool journal compact jobs.log

It fails if the journal is open in a pool, or is damaged.
"""

REPAIR = """\
Make a damaged journal one that a pool can open. All whole records are kept; a
copy of the damaged file stays beside it, as PATH.damaged-1. A journal that is
not damaged is left as it is. A job whose end was lost will run again.
"""

REPAIR_EPILOG = """\
example:
  asyncpool journal repair jobs.log

It fails if the journal is open in a pool, or nothing of it is whole.
"""


class _Unreadable(Exception):
    """The path is not that of a file that can be read."""


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command `journal`."""
    parser = commands.add_parser(
        "journal",
        help="show, verify, compact or repair the journal of a pool",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    shown = _add(verbs, "show", show, "list its jobs", SHOW, SHOW_EPILOG)
    which = shown.add_mutually_exclusive_group()
    add = which.add_argument
    add("--unfinished", action="store_true", help="only the jobs that have not ended")
    add("--finished", action="store_true", help="only the jobs that have ended")
    shown.add_argument("--json", action="store_true", help="print JSON Lines, see below")
    _add(verbs, "verify", verify, "tell whether it is well", VERIFY, VERIFY_EPILOG)
    _add(verbs, "compact", compact, "make it smaller", COMPACT, COMPACT_EPILOG)
    _add(verbs, "repair", repair, "save what is whole of it", REPAIR, REPAIR_EPILOG)


def _add(
    verbs: argparse._SubParsersAction[Any],
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str,
    description: str,
    epilog: str,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", metavar="PATH", help="the file of the journal")
    parser.set_defaults(run=partial(_answer, run))
    return parser


def _answer(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run the command; what it cannot do is one line on stderr."""
    try:
        return run(options)
    except _Unreadable as error:
        _complain(str(error))
        return BAD_USAGE
    except JournalError as error:
        _complain(str(error))
        return FAILED


# show


def show(options: argparse.Namespace) -> int:
    """List the jobs; return 1 if the journal is damaged, so that some may be missing."""
    survey = _survey(options.path)
    entries = list(survey.table.jobs.values())
    wanted = entries
    if options.finished or options.unfinished:
        wanted = [job for job in entries if (job.ended_at is not None) is options.finished]
    for line in map(_json_line, wanted) if options.json else _table(wanted, entries):
        _say(line)
    if survey.damage is None:
        return 0
    path = options.path
    _complain(f"journal {path} is damaged: `asyncpool journal verify` tells where")
    return FAILED


def _json_line(job: Entry) -> str:
    fields = {
        "id": job.id,
        "function": job.function,
        "state": job.state,
        "submitted_at": job.submitted_at,
        "attempts": job.attempts,
        "ended_at": job.ended_at,
        "error": job.error,
    }
    return json.dumps(fields).replace("\x7f", "\\u007f")  # the one that json leaves as it is


def _table(wanted: list[Entry], all_jobs: list[Entry]) -> Iterator[str]:
    """Yield the heads of the columns, a line per wanted job, and the summary."""
    names = [(printable(job.id), printable(job.function)) for job in wanted]
    ids = _width(["job", *(name for name, _ in names)])
    functions = _width(["function", *(function for _, function in names)])
    row = f"{{:<9}}  {{:<19}}  {{:>8}}  {{:<{ids}}}  {{:<{functions}}}  {{}}"
    if wanted:
        yield row.format("state", "submitted", "attempts", "job", "function", "").rstrip()
    for job, (name, function) in zip(wanted, names, strict=True):
        submitted, note = _date(job.submitted_at), _note(job)
        yield row.format(job.state, submitted, job.attempts, name, function, note).rstrip()
    yield _summary(all_jobs)


def _width(texts: Iterable[str]) -> int:
    return min(WIDEST_COLUMN, max(map(len, texts)))


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _note(job: Entry) -> str:
    note = printable((job.error or "").partition("\n")[0])
    return note if len(note) <= LONGEST_NOTE else note[:LONGEST_NOTE] + ".."


def _summary(jobs: list[Entry]) -> str:
    states = Counter(job.state for job in jobs)
    parts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return f"{_count(len(jobs), 'job')}: {parts}" if jobs else "no jobs"


# verify


def verify(options: argparse.Namespace) -> int:
    """Tell whether the journal is well; return 0 if so."""
    survey = _survey(options.path)
    path = printable(options.path)
    if survey.damage is not None:
        lines = [f"{path}: damaged", *_damage(survey, path)]
    elif survey.tail is not None:
        lines = [f"{path}: well, but for its end", *_tail(survey.tail)]
    else:
        lines = [f"{path}: all is well"]
    for line in (*lines, f"  {_contents(survey)}"):
        _say(line)
    return 0 if survey.damage is None else FAILED


def _damage(survey: Survey, path: str) -> Iterator[str]:
    assert survey.damage is not None
    offset, line, why = survey.damage
    yield f"  first bad record: at byte {offset}, line {line}: {why}"
    yield f"  whole records: {survey.records - survey.behind} before that, {survey.behind} behind"
    if survey.records:
        yield f"  what to do: `asyncpool journal repair {path}` keeps the whole records, and a copy"
    else:
        yield "  what to do: nothing of it is whole; look for a copy, or is it another file?"


def _tail(tail: Tail) -> Iterator[str]:
    yield f"  at byte {tail.offset} stand {_count(tail.size, 'byte')} of a record that was never"
    yield "  acknowledged: the next open cuts them off, unless a pool is just writing them"


def _contents(survey: Survey) -> str:
    unfinished, finished = len(survey.table.unfinished), len(survey.table.finished)
    jobs = f"{unfinished} unfinished and {_count(finished, 'finished job')}"
    return f"{_count(survey.records, 'record')}, {jobs}, {_count(survey.size, 'byte')}"


# compact


def compact(options: argparse.Namespace) -> int:
    """Rewrite the journal without what does not matter any more."""
    from .ledger import Ledger
    from .options import Journal

    os.close(_open(options.path))
    ledger = Ledger.open_as_it_is(Journal(options.path, retention=FOREVER))
    try:
        before = ledger.size
        if before:
            ledger.compact()
        after = ledger.size
    finally:
        ledger.close()
    _say(f"{printable(options.path)}: {_count(before, 'byte')} before, {after} after")
    return 0


# repair


def repair(options: argparse.Namespace) -> int:
    """Save what is whole of a damaged journal, and tell what that means for its jobs."""
    from .disk import Disk
    from .repair import repair as save

    os.close(_open(options.path))
    done = save(options.path, Disk())
    path = printable(options.path)
    if done.copy is None:
        _say(f"{path}: not damaged before its end, and left as it is")
        return 0
    found = done.found
    lines = _count(len(found.broken_lines), "broken line")
    _say(f"{path}: repaired, {_count(done.size, 'byte')}")
    _say(f"  the damaged file is kept as {printable(done.copy)}")
    _say(f"  dropped: {_count(found.dropped, 'byte')}, {lines}")
    if found.missing:
        _say(f"  lost: {_count(found.missing, 'record')}, to go by the numbers of the others")
    affected = found.affected
    if affected:
        _say("  unfinished; those that ended in what was lost will run again:")
    for job in affected:
        _say(f"    {printable(job.id)}  {printable(job.function)}")
    if found.table.lost:
        _say("  gone, as their submissions were lost; submit them again:")
    for job_id in found.table.lost:
        _say(f"    {printable(job_id)}")
    return 0


# Reading


def _survey(path: str) -> Survey:
    """Read a journal without its lock."""
    from .survey import Spot, Survey

    fd = _open(path)
    try:
        survey = Survey(_chunks(fd), path)
        if survey.damage is not None:
            # Or its owner cut back a write that failed, and wrote again, between two reads of ours.
            survey = Survey(_chunks(fd), path)
        if not survey.records and not _may_be_new(fd, path):
            survey.damage = Spot(0, 1, "it does not begin like a journal")
    except OSError as error:
        if isinstance(error, JournalError):
            raise
        raise _unreadable(path, error) from error
    finally:
        os.close(fd)
    return survey


def _may_be_new(fd: int, path: str) -> bool:
    """Whether a file without a whole record is the beginning of a journal."""
    from .reading import Reading

    try:
        for _ in Reading(_chunks(fd), path):
            pass
    except JournalCorrupt:
        return False
    return True


def _open(path: str) -> int:
    try:
        # Not blocking, or a FIFO of that name would wait for its other end.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise _unreadable(path, error) from error
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
        raise _Unreadable(f"{path} is {what}, so it cannot be a journal")
    return fd


def _unreadable(path: str, error: OSError) -> _Unreadable:
    return _Unreadable(f"journal {path} cannot be read: {error.strerror or error}")


def _chunks(fd: int) -> Iterator[bytes]:
    """Yield what stood in the file at the beginning, even while its owner goes on."""
    offset, end = 0, os.fstat(fd).st_size
    while chunk := os.pread(fd, min(CHUNK, end - offset), offset):
        offset += len(chunk)
        yield chunk


# Saying


def printable(text: str) -> str:
    """Return the text with escapes for all that a terminal would obey, or show as nothing."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _say(line: str) -> None:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding))


def _complain(text: str) -> None:
    print(f"asyncpool: {printable(text)}", file=sys.stderr)


def _count(number: int, one: str) -> str:
    return f"{number} {one if number == 1 else one + 's'}"
