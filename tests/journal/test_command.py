"""`asyncpool journal`: whether a journal is well, how it gets smaller, and what no command does."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncpool.cli import main
from asyncpool.journal import command as journal_command
from asyncpool.journal.command import printable
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.lines import seal
from asyncpool.journal.options import Journal
from tests.support.commands import command

from . import sample
from .sample import damage, run, states

COMMANDS = pytest.mark.parametrize("verb", ["show", "verify", "compact", "repair"])
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def day(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.log"
    sample.a_day(path)
    return path


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.abort, ()


@COMMANDS
def test_nothing_is_unpickled(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "jobs.log"
    bomb = sample.submitted("bomb", payload=pickle.dumps(Bomb()))
    sample.write(path, bomb, sample.submitted("lost"), sample.done("bomb")).close()
    if verb == "repair":
        damage(path, sample.find(path, "submitted", "lost").offset + 20)
    assert command(tmp_path, "journal", verb, str(path)).run().returncode == 0


@pytest.mark.parametrize("verb", ["show", "verify"])
def test_looking_needs_no_lock(tmp_path: Path, capsys: Capture, verb: str) -> None:
    path = tmp_path / "jobs.log"
    ledger = sample.write(path, sample.submitted("a"))
    with path.open("ab") as half:
        half.write(b'{"seq":3,"kind":"subm')  # as if the owner were just writing it
    before = path.read_bytes()
    assert run(verb, path) == 0
    assert capsys.readouterr().err == ""
    assert path.read_bytes() == before
    ledger.close()


# verify


def test_verify_of_a_journal_that_is_well(day: Path, capsys: Capture) -> None:
    assert run("verify", day) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{day}: all is well\n")
    assert "4 unfinished and 5 finished jobs" in out
    assert f"{len(sample.lines(day))} records" in out
    assert f"{day.stat().st_size} bytes" in out


def test_verify_tells_of_a_torn_tail(day: Path, capsys: Capture) -> None:
    size = day.stat().st_size
    with day.open("ab") as file:
        file.write(b'{"seq":31,"kind":"fin')
    assert run("verify", day) == 0
    assert f"at byte {size} stand 21 bytes" in capsys.readouterr().out


@pytest.mark.parametrize("missing", [1, 2, 100])
@pytest.mark.parametrize("zeros", [0, 1, 5000])
def test_verify_takes_no_torn_tail_for_damage(day: Path, missing: int, zeros: int) -> None:
    day.write_bytes(day.read_bytes()[:-missing] + bytes(zeros))
    assert run("verify", day) == 0


def test_verify_tells_where_a_journal_is_damaged(day: Path, capsys: Capture) -> None:
    lines = sample.lines(day)
    number, bad = 12, lines[12 - 1]
    damage(day, bad.offset + 30)
    assert run("verify", day) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"{day}: damaged\n")
    assert f"at byte {bad.offset}, line {number}: its checksum is wrong\n" in out
    assert f"{number - 1} before that, {len(lines) - number} behind\n" in out
    assert f"asyncpool journal repair {day}" in out


def test_verify_looks_twice_before_it_speaks_of_damage(
    day: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The owner may replace bytes of a write that failed, between two reads of ours."""
    good, looks = day.read_bytes(), []

    def chunks(fd: int) -> Iterator[bytes]:
        looks.append(fd)
        yield good if len(looks) > 1 else good[:300] + good[310:]

    monkeypatch.setattr(journal_command, "_chunks", chunks)
    assert run("verify", day) == 0
    assert "all is well" in capsys.readouterr().out
    assert len(looks) == 2


@COMMANDS
def test_a_newer_format_is_said_to_be_one(tmp_path: Path, capsys: Capture, verb: str) -> None:
    path = tmp_path / "jobs.log"
    path.write_bytes(seal(0, '"kind":"asyncpool journal","format":7,"compacted":0'))
    path.chmod(0o600)
    assert run(verb, path) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "format 7" in err


@pytest.mark.parametrize("data", [b"GIF89a", b'{"a": 1}\n', b"\n", b'{"seq":0,"kind":"x"\n\n'])
@COMMANDS
def test_what_is_no_journal(tmp_path: Path, capsys: Capture, verb: str, data: bytes) -> None:
    path = tmp_path / "picture"
    path.write_bytes(data)
    path.chmod(0o600)
    assert run(verb, path) == 1
    assert "begin like a journal" in "".join(capsys.readouterr()) or verb in ("show", "repair")
    assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


@COMMANDS
def test_an_empty_file_is_a_journal_without_jobs(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "jobs.log"
    path.touch(0o600)
    assert run(verb, path) == 0
    assert path.read_bytes() == b""


# What cannot be read


@COMMANDS
@pytest.mark.parametrize("kind", ["missing", "directory", "fifo", "file/below", "evil\x1b[2J\n"])
def test_what_cannot_be_read_is_bad_usage(
    tmp_path: Path, capsys: Capture, verb: str, kind: str
) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    assert run(verb, tmp_path / kind) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert printable(str(tmp_path / kind)) in err
    assert "\x1b" not in err


@COMMANDS
@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_one_may_not_read_is_bad_usage(day: Path, capsys: Capture, verb: str) -> None:
    day.chmod(0)
    assert run(verb, day) == 2
    assert "Permission denied" in capsys.readouterr().err


# compact


def recovered(path: Path) -> dict[str, tuple[int, int, int]]:
    """Return what a pool would recover now: crashes, errors and past attempts of each job."""
    copy = path.with_name("copy.log")
    shutil.copy(path, copy)
    ledger = Ledger.open(Journal(copy))
    index = ledger.index
    ledger.close()
    jobs = index.unfinished.items()
    return {key: (job.crashes, job.errors, len(job.retries)) for key, job in jobs}


def test_compacting_changes_nothing_that_matters(day: Path, capsys: Capture) -> None:
    promised, before = recovered(day), day.stat().st_size
    assert promised["running"] == (0, 0, 0)  # or it was "behind"
    assert promised["again"] == (2, 0, 2)
    assert promised["behind"] == (0, 0, 0)
    for _ in range(3):
        assert run("compact", day) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(f"{day}: {before} bytes before, ")
    assert int(first.split()[-2]) < before
    assert recovered(day) == promised
    assert len(states(_shown(day, capsys))) == 9


def _shown(path: Path, capsys: Capture) -> str:
    run("show", path)
    return capsys.readouterr().out


def test_compacting_forgets_no_named_job_however_old(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    old = sample.finished("old", "done", '"outcome":"cancelled"')
    body = old[2].replace(f"{sample.NOON + 3:.3f}", "1000.000")
    sample.write(path, sample.submitted("old"), ("finished", "old", body, (1000.0,))).close()
    assert run("compact", path) == 0
    assert sample.find(path, "finished", "old").record["time"] == 1000.0


def test_compacting_refuses_damage(day: Path, capsys: Capture) -> None:
    damage(day, sample.find(day, "finished", "done").offset + 30)
    before = day.read_bytes()
    assert run("compact", day) == 1
    assert "is damaged at byte" in capsys.readouterr().err
    assert day.read_bytes() == before


@pytest.mark.parametrize("verb", ["compact", "repair"])
def test_a_journal_in_use_is_left_to_its_owner(tmp_path: Path, capsys: Capture, verb: str) -> None:
    path = tmp_path / "jobs.log"
    ledger = sample.write(path, sample.submitted("a"))
    before = path.read_bytes()
    assert run(verb, path) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"in use by this process ({os.getpid()})" in err
    assert path.read_bytes() == before
    ledger.close()


# As a program


@pytest.mark.parametrize("argv", ["", "show", "show x --finished --unfinished", "mend x"])
def test_bad_usage_is_one_line(argv: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["journal", *argv.split()])
    out, err = capsys.readouterr()
    assert exited.value.code == 2
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize("verb", ["", "show", "verify", "compact", "repair"])
def test_help_has_an_example(verb: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as exited:
        main(["journal", *filter(None, [verb]), "--help"])
    out = capsys.readouterr().out
    assert exited.value.code == 0
    assert f"\n  asyncpool journal {verb}" in out
    assert max(map(len, out.splitlines())) <= 80


def test_another_process_names_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    ledger = sample.write(path, sample.submitted("a"))
    done = command(tmp_path, "journal", "compact", str(path)).run()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"is in use by process {os.getpid()}\n")
    ledger.close()
