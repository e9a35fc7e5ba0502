"""A journal has one owner at a time; the lock is the kernel's, so it is free when the owner is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from asyncpool.errors import JournalError, JournalLocked
from asyncpool.journal.disk import Disk
from asyncpool.journal.file import JournalFile
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.options import Journal
from tests.support.scripts import Script

OWNER = """
    import os, sys
    from asyncpool.journal.ledger import Ledger
    from asyncpool.journal.options import Journal
    ledger = Ledger.open(Journal(sys.argv[1]))
    if sys.argv[2] == "with a child" and os.fork():
        sys.stdin.read()  # it is the child who tells
    print("open", flush=True)
    sys.stdin.read()
    """
"""Opens the journal and keeps it until it is killed, or its input ends."""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.log")


def opened(path: str) -> JournalFile:
    return JournalFile.open(path, Disk())


def test_this_process_cannot_open_it_twice(path: str) -> None:
    with closing(Ledger.open(Journal(path))):
        for _ in range(2):
            with pytest.raises(JournalLocked, match="in use by this process") as caught:
                Ledger.open(Journal(path))
            assert caught.value.pid == os.getpid()
    Ledger.open(Journal(path)).close()


def test_a_symlink_leads_to_the_same_lock(path: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.log"
    link.symlink_to(path)
    with closing(Ledger.open(Journal(link))) as ledger:
        assert ledger.path == path
        with pytest.raises(JournalLocked):
            Ledger.open(Journal(path))
        ledger.compact()
        with pytest.raises(JournalLocked):
            Ledger.open(Journal(path))
    assert link.is_symlink()
    with closing(Ledger.open(Journal(path))), pytest.raises(JournalLocked):
        Ledger.open(Journal(link))


def test_a_lock_before_anything_is_written_names_nobody(path: str) -> None:
    with closing(opened(path)), pytest.raises(JournalLocked, match="another process") as caught:
        opened(path)
    assert caught.value.pid is None


@pytest.mark.parametrize("family", ["alone", "with a child"])
def test_another_process_has_it_until_it_is_killed(path: str, tmp_path: Path, family: str) -> None:
    with _running_owner(path, tmp_path, family) as owner:
        with pytest.raises(JournalLocked, match=f"in use by process {owner.pid}") as caught:
            opened(path)
        assert caught.value.pid == owner.pid
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        opened(path).close()


def _running_owner(path: str, directory: Path, family: str) -> subprocess.Popen[str]:
    script = Script(OWNER, directory)
    owner = subprocess.Popen(
        [*script.command, path, family],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=directory,
        env=script.env,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "open\n"
    return owner


@pytest.mark.parametrize("size", [1, 5_000, (1 << 20) - 30, 3 << 20])
def test_the_owner_is_found_however_much_it_wrote_since(path: str, size: int) -> None:
    with closing(Ledger.open(Journal(path))) as ledger:
        text = f'"kind":"test","text":"{"x" * size}"'
        ledger.write([("test", "", text, ())], sync=False)
        with pytest.raises(JournalLocked) as caught:
            opened(path)
        assert caught.value.pid == os.getpid()


def test_the_last_owner_counts(path: str) -> None:
    with closing(Ledger.open(Journal(path))) as ledger:
        later = '"kind":"opened","time":1.000,"pid":12345'
        ledger.write([("opened", "", later, ())], sync=False)
        with pytest.raises(JournalLocked, match="in use by process 12345"):
            opened(path)


def test_a_child_by_fork_does_not_hold_it(path: str) -> None:
    file = opened(path)
    stay, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(stay, 1)  # until the parent has looked
        os._exit(0 if file.fd == -1 else 1)
    try:
        os.close(stay)
        file.close()
        opened(path).close()  # at once, even if the child is not there yet
    finally:
        os.close(go)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_the_parent_keeps_it_when_its_child_by_fork_ends(path: str) -> None:
    with closing(opened(path)) as file:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
        file.append(b"still ours\n", sync=True)
        with pytest.raises(JournalLocked):
            opened(path)


def test_a_subprocess_does_not_inherit_it(path: str) -> None:
    with closing(opened(path)) as file:
        assert not os.get_inheritable(file.fd)
        seen = subprocess.run(
            [sys.executable, "-c", "import os; os.system('ls -l /proc/self/fd')"],
            close_fds=False,
            capture_output=True,
            text=True,
            check=True,
        )
    assert seen.stdout
    assert path not in seen.stdout


def test_an_error_while_it_is_opened_frees_it(path: str) -> None:
    Path(path).write_text("Dear diary,\n")
    os.chmod(path, 0o600)
    for _ in range(2):
        with pytest.raises(JournalError, match="does not begin like a journal"):
            Ledger.open(Journal(path))
    assert Path(path).read_text() == "Dear diary,\n"


def test_one_that_was_put_in_its_place_while_it_was_opened_is_taken(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from asyncpool.journal import file as module

    Path(path).touch(mode=0o600)
    lock = module._lock
    new = tmp_path / "new"

    def lock_late(fd: int, path: str) -> None:
        if not new.exists():  # its last owner compacts it, and is gone, before we have the lock
            new.touch(mode=0o600)
            os.link(new, tmp_path / "new again")
            os.replace(tmp_path / "new again", path)
        lock(fd, path)

    monkeypatch.setattr(module, "_lock", lock_late)
    with closing(opened(path)) as file:
        assert os.path.samestat(os.fstat(file.fd), os.stat(path))
        assert os.path.samestat(os.fstat(file.fd), os.stat(new))
