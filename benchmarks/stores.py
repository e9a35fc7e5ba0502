"""What else accepts a job only when it is on the disk. Each is opened fresh for each sample.

All of them block while they do, so one thread is all that they are given: their locks would let
no second one do anything meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import TypeAlias

from . import recorded
from .huey_tasks import HueyQueue
from .optional import optional

Put: TypeAlias = "Callable[[], object]"
"""Accepts jobs (one, if nothing else is said): when it returns, they are on the disk."""

OpenStore: TypeAlias = "Callable[[str], AbstractContextManager[Put]]"
"""Opens a store whose files are in that directory."""

GROUP = 1_000
"""How many jobs share an fsync when a thousand submitters wait."""

RAW_HOW = "os.write of a line as long as the journal's, os.fdatasync, and again"
GROUP_HOW = f"{GROUP:,} such lines, then one os.fdatasync, and again; no pool, no loop"
SQLITE_HOW = "journal_mode=WAL, synchronous=FULL, one insert of such a line per commit, one thread"
HUEY_HOW = "SqliteHuey(fsync=True), a call of a task without arguments, one thread"
PERSIST_QUEUE_HOW = (
    "SQLiteQueue(auto_commit=True), put of such a line; it is WAL, and FULL as SQLite is by default"
)


@contextmanager
def open_raw(directory: str, group: int = 1) -> Iterator[Put]:
    """Open a plain file: the least that any log must do."""
    lines = recorded.typical_line() * group
    fd = os.open(os.path.join(directory, "raw"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def put() -> None:
        if os.write(fd, lines) != len(lines):
            raise OSError("the file took only some of it")
        _sync(fd)

    try:
        yield put
    finally:
        os.close(fd)


_sync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


@contextmanager
def open_sqlite(directory: str) -> Iterator[Put]:
    """Open a table in a SQLite database."""
    line = recorded.typical_line()
    with closing(sqlite3.connect(os.path.join(directory, "sqlite"))) as connection:
        connection.isolation_level = None  # each statement commits
        connection.execute("pragma journal_mode=wal")
        connection.execute("pragma synchronous=full")
        connection.execute("create table job (id integer primary key, body blob not null)")

        def put() -> None:
            connection.execute("insert into job (body) values (?)", (line,))

        yield put


@contextmanager
def open_sqlite_huey(directory: str) -> Iterator[Put]:
    """Open a queue of huey's."""
    with closing(HueyQueue(os.path.join(directory, "huey"))) as queue:
        yield queue.put


@contextmanager
def open_persist_queue(directory: str) -> Iterator[Put]:
    """Open a queue of persist-queue's."""
    line = recorded.typical_line()
    queue = optional("persistqueue").SQLiteQueue(directory, auto_commit=True)
    with closing(queue):

        def put() -> None:
            queue.put(line)

        yield put
