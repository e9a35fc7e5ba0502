"""The file of a journal is for its user alone to write, and is noticed when it is gone."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from asyncpool.errors import JournalError, JournalWriteError
from asyncpool.journal.disk import Disk
from asyncpool.journal.file import JournalFile
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.options import Journal


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


def opened(path: str | Path, *, create: bool = True) -> JournalFile:
    return JournalFile.open(str(path), Disk(), create=create)


def mode_of(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


@pytest.fixture(params=[0, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


# Who may write to it


@pytest.mark.usefixtures("umask")
def test_it_is_made_for_its_user_alone(path: str) -> None:
    with closing(opened(path)):
        assert mode_of(path) == 0o600


@pytest.mark.usefixtures("umask")
def test_so_is_a_compacted_one(path: str) -> None:
    with closing(Ledger.open(Journal(path))) as ledger:
        before = os.stat(path).st_ino
        ledger.compact()
        assert os.stat(path).st_ino != before
        assert mode_of(path) == 0o600


def test_none_is_made_where_one_is_expected(path: str) -> None:
    with pytest.raises(JournalWriteError, match="No such file") as caught:
        opened(path, create=False)
    assert caught.value.errno == errno.ENOENT
    assert not os.path.exists(path)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666, 0o777])
def test_what_others_may_write_is_refused(path: str, mode: int) -> None:
    Path(path).touch()
    os.chmod(path, mode)
    with pytest.raises(JournalError, match=r"others may write.*chmod it to 0600"):
        opened(path)
    os.chmod(path, 0o600)
    opened(path).close()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_others_may_read_it_if_the_user_says_so(path: str, mode: int) -> None:
    Path(path).touch()
    os.chmod(path, mode)
    opened(path).close()
    assert mode_of(path) == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_file_of_another_user_is_refused(path: str) -> None:
    Path(path).touch(mode=0o600)
    os.chown(path, 1234, -1)
    with pytest.raises(JournalError, match=r"belongs to user 1234.*chown it to 0"):
        opened(path)


def test_a_fifo_is_refused_and_not_waited_for(path: str) -> None:
    os.mkfifo(path, 0o600)
    with pytest.raises(JournalError, match="no regular file"):
        opened(path)


def test_a_device_is_refused() -> None:
    with pytest.raises(JournalError, match="/dev/full is no regular file"):
        opened("/dev/full")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="Is a directory"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["missing/jobs.log", "file/jobs.log", "x" * 300])
def test_a_path_that_cannot_be_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalWriteError, match=r"cannot be (opened|made in)") as caught:
        opened(tmp_path / name)
    assert caught.value.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)


# Gone


@pytest.mark.parametrize("how", ["moved", "deleted", "replaced"])
def test_a_file_that_is_gone_takes_nothing_more(path: str, tmp_path: Path, how: str) -> None:
    with closing(opened(path)) as file:
        file.append(b"one\n", sync=True)
        if how == "moved":
            os.rename(path, tmp_path / "moved")
        else:
            os.unlink(path)
        if how == "replaced":
            Path(path).touch()
        with pytest.raises(JournalWriteError, match="moved, replaced or deleted") as caught:
            file.append(b"two\n", sync=True)
        assert caught.value.errno is None
        assert file.read(0, 100) == b"one\n"
        for sync in (True, False):
            with pytest.raises(JournalWriteError, match="moved, replaced or deleted"):
                file.append(b"three\n", sync=sync)
        with pytest.raises(JournalWriteError, match="moved, replaced or deleted"):
            file.sync()
