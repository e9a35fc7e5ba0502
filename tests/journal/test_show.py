"""`asyncpool journal show`: the jobs of a journal, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from asyncpool.journal.command import printable
from asyncpool.journal.ledger import Ledger
from asyncpool.journal.options import Journal
from tests.support.commands import command

from . import sample
from .sample import damage, run, states

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def day(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.log"
    sample.a_day(path)
    return path


def test_show_tells_of_each_job_in_the_order_of_submission(day: Path, capsys: Capture) -> None:
    assert run("show", day) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert list(states(out).items()) == [
        *[("done", "done"), ("failed", "failed"), ("crashed", "failed"), ("late", "failed")],
        *[("stopped", "cancelled"), ("again", "sent"), ("running", "sent"), ("behind", "sent")],
        ("new", "pending"),
    ]
    assert out.splitlines()[-1] == "9 jobs: 1 cancelled, 1 done, 3 failed, 1 pending, 3 sent"


def test_show_tells_how_jobs_failed(day: Path, capsys: Capture) -> None:
    run("show", day)
    out = capsys.readouterr().out
    ends = {
        line.split()[4]: line.rpartition("chores.paint")[2].strip()
        for line in out.split("\n")
        if "chores" in line
    }
    assert ends["failed"] == "ValueError: no paint"
    assert ends["crashed"] == "worker 4000 was killed by SIGSEGV"
    assert ends["late"] == "ran longer than 2.5 s"
    assert ends["again"] == "attempt 1 ended: crashed"
    assert ends["done"] == ends["stopped"] == ends["new"] == ""


def test_who_was_sent_to_a_dead_owner_waits_again(day: Path, capsys: Capture) -> None:
    Ledger.open(Journal(day)).close()
    run("show", day, "--unfinished")
    told = states(capsys.readouterr().out)
    waiting = {"again": "retrying", "running": "pending", "behind": "pending", "new": "pending"}
    assert told == waiting


@pytest.mark.parametrize(("flag", "ended"), [("--unfinished", False), ("--finished", True)])
def test_show_can_leave_out(day: Path, capsys: Capture, flag: str, ended: bool) -> None:
    assert run("show", day, flag) == 0
    out = capsys.readouterr().out
    assert [name in states(out) for name in ("new", "again", "done", "late")] == [
        *[not ended] * 2,
        *[ended] * 2,
    ]
    assert out.splitlines()[-1].startswith("9 jobs:")


def test_show_json_has_an_object_for_each_job(day: Path, capsys: Capture) -> None:
    assert run("show", day, "--json") == 0
    jobs = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [job["id"] for job in jobs][:2] == ["done", "failed"]
    assert jobs[1] == {
        "id": "failed",
        "function": "chores.paint",
        "state": "failed",
        "submitted_at": sample.NOON,
        "attempts": 1,
        "ended_at": sample.NOON + 3,
        "error": "ValueError: no paint\nat all",
    }
    assert jobs[-1]["ended_at"] is None


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_nothing_reaches_the_terminal_that_it_would_obey(
    tmp_path: Path, capsys: Capture, flags: tuple[str, ...]
) -> None:
    path = tmp_path / "jobs.log"
    evil = "\x1b[2J\x9b31m\r\n\x07\u202e\x7f\ud800"
    notes = [sample.submitted(evil, function=evil), sample.failed(evil, evil)]
    sample.write(path, *notes).close()
    assert run("show", path, *flags) == 0
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    assert len(out.splitlines()) == (1 if flags else 3)


def test_text_of_all_languages_is_left_alone() -> None:
    assert printable("漢字 ümläut 🦆") == "漢字 ümläut 🦆"
    assert printable("a\x1b[0m\nb") == "a\\x1b[0m\\nb"


def test_show_tells_all_it_can_of_a_damaged_journal(day: Path, capsys: Capture) -> None:
    damage(day, sample.find(day, "finished", "done").offset + 30)
    assert run("show", day) == 1
    out, err = capsys.readouterr()
    assert states(out)["done"] == "sent"
    assert states(out)["late"] == "failed"
    assert err.count("\n") == 1
    assert "damaged" in err


def test_show_of_a_new_journal(tmp_path: Path, capsys: Capture) -> None:
    sample.write(tmp_path / "new.log").close()
    assert run("show", tmp_path / "new.log") == 0
    assert capsys.readouterr().out == "no jobs\n"


def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path) -> None:
    path = tmp_path / "jobs.log"
    jobs = [sample.submitted(f"job-{number}") for number in range(5000)]
    sample.write(path, *jobs).close()
    with command(tmp_path, "journal", "show", str(path)).running() as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("state")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(10) == 141


def test_an_output_that_knows_few_letters(day: Path, tmp_path: Path) -> None:
    path = tmp_path / "other.log"
    sample.write(path, sample.submitted("漢字")).close()
    script = command(tmp_path, "journal", "show", str(path), env={"PYTHONIOENCODING": "ascii"})
    done = script.run()
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u6f22\\u5b57" in done.stdout
