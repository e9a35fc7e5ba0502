"""The command line as such: its usage, its exit codes, and output that nobody takes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import asyncpool
from asyncpool.cli import main
from tests.support.commands import command

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
BRIEF = ("demo", "--jobs", "10,11,12", "--crash-rate", "0")
ENDLESS = ("demo", "--jobs", "60,60,60,60,60,60")


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        ("", "COMMAND"),
        ("nonsense", "'nonsense'"),
        ("demo --nonsense", "--nonsense"),
        ("demo extra", "extra"),
        ("demo --jobs x", "--jobs: 'x'"),
        ("demo --jobs 30,,31", "--jobs: '30,,31'"),
        ("demo --jobs 30,-1", "--jobs: '30,-1'"),
        ("demo --jobs=-1", "--jobs: '-1'"),
        ("demo --jobs=", "--jobs: ''"),
        ("demo --jobs 1.5", "--jobs: '1.5'"),
        ("demo --workers 0", "--workers: '0'"),
        ("demo --workers -2", "--workers: '-2'"),
        ("demo --workers two", "--workers: 'two'"),
        ("demo --crash-rate 1", "--crash-rate: '1'"),
        ("demo --crash-rate -0.1", "--crash-rate: '-0.1'"),
        ("demo --crash-rate nan", "--crash-rate: 'nan'"),
        ("demo --crash-rate often", "--crash-rate: 'often'"),
        ("demo --seed x", "--seed"),
        ("demo --loop tornado", "'tornado'"),
    ],
)
def test_bad_usage_is_refused_in_one_line(
    argv: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(argv.split(" ") if argv else [])
    said = capsys.readouterr()
    assert exited.value.code == 2
    assert said.out == ""
    assert said.err.startswith("asyncpool")
    assert said.err.count("\n") == 1
    assert complaint in said.err
    assert "--help" in said.err


@pytest.mark.parametrize("argv", ["--help", "demo --help"])
def test_help_has_an_example_and_80_columns(
    argv: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as exited:
        main(argv.split())
    said = capsys.readouterr()
    assert exited.value.code == 0
    assert "\n  asyncpool demo" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_the_module_tells_its_version(tmp_path: Path) -> None:
    done = command(tmp_path, "--version").run()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"asyncpool {asyncpool.__version__}\n"


@LOOPS
def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path, loop: str) -> None:
    """Like `asyncpool demo | head -3`; that no process is left is checked after every test."""
    with command(tmp_path, *ENDLESS, "--loop", loop).running() as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first, *_ = [process.stdout.readline() for _ in range(3)]
        assert first.startswith("6 jobs")
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(10) == 141


@pytest.mark.parametrize("argv", [("--help",), BRIEF])
@pytest.mark.parametrize("unbuffered", ["1", None])
def test_a_reader_that_never_came_ends_it_quietly(
    tmp_path: Path, argv: tuple[str, ...], unbuffered: str | None
) -> None:
    script = command(tmp_path, *argv, env={"PYTHONUNBUFFERED": unbuffered})
    ours, its = os.pipe()
    os.close(ours)
    try:
        done = subprocess.run(
            script.command, env=script.env, stdout=its, stderr=subprocess.PIPE, check=False
        )
    finally:
        os.close(its)
    assert done.stderr == b""
    # argparse itself ignores that its help cannot be written.
    assert done.returncode == (0 if argv == ("--help",) and unbuffered else 141)


@LOOPS
def test_closed_standard_streams_do_no_harm(tmp_path: Path, loop: str) -> None:
    script = command(tmp_path, *BRIEF, "--loop", loop)
    closing = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *script.command]
    assert subprocess.run(closing, env=script.env, timeout=30, check=False).returncode == 0


def test_a_full_disk_is_told_in_one_line(tmp_path: Path) -> None:
    script = command(tmp_path, *BRIEF)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            script.command, env=script.env, stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"asyncpool: cannot write the output: No space left on device\n"


@LOOPS
def test_ctrl_c_leaves_no_traceback_and_no_process(tmp_path: Path, loop: str) -> None:
    """CTRLC-1, in a real terminal: two workers busy, the others' jobs and more jobs waiting."""
    with command(tmp_path, *ENDLESS, "--workers", "2", "--loop", loop).in_terminal() as terminal:
        terminal.until("ACKed     fib-60-2")
        terminal.type("\x03")
        done = terminal.finish(within=10)
    assert done.returncode == 130
    assert done.stdout.endswith("asyncpool: interrupted\n")
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("json", [(), ("--json",)])
def test_an_impatient_ctrl_c_is_no_different(tmp_path: Path, json: tuple[str, ...]) -> None:
    with command(tmp_path, *ENDLESS, *json).in_terminal() as terminal:
        terminal.until("fib-60-6" if json else "sent")
        terminal.type("\x03\x03\x03")
        done = terminal.finish(within=10)
    assert done.returncode == 130
    assert "Traceback" not in done.stdout
    assert "Summary" not in done.stdout
