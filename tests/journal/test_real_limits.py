"""Limits that the system really sets: of a file's size, and of who may write to a directory."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.scripts import Script

# Python ignores SIGXFSZ from its start on, so that the system says EFBIG.
FILE_THAT_MAY_NOT_GROW = """
    import resource
    from asyncpool.errors import JournalWriteError
    from asyncpool.journal.ledger import Ledger
    from asyncpool.journal.options import Journal
    from tests.journal.notes import submitted

    ledger = Ledger.open(Journal("jobs.log"))
    ledger.write([submitted("first")], sync=True)
    size = ledger.size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
    for id in ("too big", "too big, too"):
        try:
            ledger.write([submitted(id, payload=bytes(1000))], sync=True)
        except JournalWriteError as error:
            print(error.errno, ledger.size == size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    ledger.write([submitted("second", payload=bytes(1000))], sync=True)
    ledger.close()
    print(*Ledger.open(Journal("jobs.log")).index.unfinished, sep=", ")
    """

DIRECTORY_THAT_IS_READ_ONLY = """
    import os, sys
    from asyncpool.errors import JournalWriteError
    from asyncpool.journal.ledger import Ledger
    from asyncpool.journal.options import Journal
    from tests.journal.notes import submitted

    folder = sys.argv[1]
    old, new = f"{folder}/old.log", f"{folder}/new.log"
    Ledger.open(Journal(old)).close()
    os.chmod(folder, 0o500)
    if os.geteuid() == 0:  # whom no mode holds up
        os.chown(old, 1234, -1)
        os.chown(folder, 1234, -1)
        os.seteuid(1234)
    try:
        Ledger.open(Journal(new))
    except JournalWriteError as error:
        print(error.errno, error)
    ledger = Ledger.open(Journal(old))
    try:
        ledger.compact()
    except JournalWriteError as error:
        print(error.errno, error)
    ledger.write([submitted("a")], sync=True)
    ledger.close()
    print(*Ledger.open(Journal(old)).index.unfinished)
    """


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    finished = Script(FILE_THAT_MAY_NOT_GROW, tmp_path).run()
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.splitlines() == [
        f"{errno.EFBIG} True",
        f"{errno.EFBIG} True",
        "first, second",
    ]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that other users can reach, which those of pytest are not."""
    path = Path(tempfile.mkdtemp())
    yield path
    os.chmod(path, 0o700)
    shutil.rmtree(path)


def test_a_read_only_directory(tmp_path: Path, folder: Path) -> None:
    finished = Script(DIRECTORY_THAT_IS_READ_ONLY, tmp_path, argv=[str(folder)]).run()
    assert (finished.returncode, finished.stderr) == (0, "")
    new, compaction, jobs = finished.stdout.splitlines()
    assert new.startswith(f"{errno.EACCES} journal {folder}/new.log cannot be made in {folder}: ")
    assert compaction.startswith(f"{errno.EACCES} {folder}/old.log.compacting cannot be made")
    assert jobs == "a"
