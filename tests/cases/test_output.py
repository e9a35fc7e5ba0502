"""STDIO-1, LOG-1, LIMIT-1: what jobs print comes out, and disturbs nothing."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from asyncpool import Pool
from tests.support.marks import Marks

from . import loud, programs
from .soundness import assert_sound

LOUD = """\
import asyncio, sys
import asyncpool
from tests.cases import loud

async def main():
    async with asyncpool.Pool(2) as pool:
        jobs = [pool.submit(loud.shout, number, sys.argv[1]) for number in range(200)]
        assert await asyncio.gather(*jobs) == list(range(200))
        assert pool.stats().crashes == pool.stats().resent == 0
        assert await pool.submit(abs, -1) == 1

asyncio.run(main())
"""


def test_two_hundred_loud_jobs(tmp_path: Path, marks: Marks) -> None:
    """STDIO-1: all results, each job once, and every byte of the text."""
    finished = programs.run("-c", LOUD, marks.path, cwd=tmp_path)
    assert (finished.code, marks.count()) == (0, 200)
    rounds = 200 // len(loud.WAYS)
    assert finished.raw_out.count(b"P") == rounds * (10_000 + loud.ALL_BYTES.count(b"P"))
    for text in (b"HELLO\n", b"CHILD\n", b"LIBC", b"THREAD\n", loud.ALL_BYTES, loud.FAKE_FRAME):
        assert finished.raw_out.count(text) == rounds
    letters = b"".join((loud.ALL_BYTES, b"HELLO\n", loud.FAKE_FRAME, b"THREAD\n"))
    assert finished.raw_out.count(b"E") == rounds * (letters.count(b"E") + 1)
    assert Counter(finished.err.splitlines()) == {"S" * 100: rounds, "Q" * 100: rounds}


def test_a_slow_reader_of_stderr(tmp_path: Path, marks: Marks) -> None:
    """STDIO-1: what workers said just before they left waits for whoever reads it."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
    arguments = [sys.executable, "-c", LOUD, marks.path]
    with (
        open(ours, "rb", buffering=0) as err,
        subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=theirs, env=programs.environment()
        ) as program,
    ):
        os.close(theirs)
        said = b""
        while data := err.read(400):
            said += data
            time.sleep(0.005)
        assert program.wait() == 0
    assert Counter(said.decode().splitlines()) == {"S" * 100: 20, "Q" * 100: 20}


@pytest.mark.parametrize("fd", [1, 2])
def test_a_megabyte_without_a_newline(tmp_path: Path, fd: int) -> None:
    """STDIO-1, LIMIT-1: on either stream."""
    program = f"""\
import asyncio, asyncpool
from tests.cases import loud
async def main():
    async with asyncpool.Pool(1) as pool:
        assert await pool.submit(loud.write_much, {fd}, 1_000_000) == 1_000_000
        assert await pool.submit(abs, -1) == 1
        assert pool.stats().crashes == 0
asyncio.run(main())
"""
    finished = programs.run("-c", program, cwd=tmp_path)
    assert (finished.out, finished.err)[fd - 1].count("M") == 1_000_000


LOGGING = """\
import asyncio, asyncpool, logging, os, sys
def log(how):
    logging.getLogger("app").info("I" * 3)
    logging.getLogger("app").warning("W" * 3)
    if how == "die":
        os._exit(3)
def configure():
    logging.basicConfig(level=logging.INFO, format="%(levelname)s of %(name)s: %(message)s")
async def main():
    initializer = configure if sys.argv[1] == "configured" else None
    retry = asyncpool.Retry(max_crashes=1)
    async with asyncpool.Pool(1, initializer=initializer, retry=retry) as pool:
        await pool.submit(log, "return")
        try:
            await pool.submit(log, "die")
        except asyncpool.WorkerCrashed as error:
            print(error.stderr)
        print(await pool.submit(abs, -1))
asyncio.run(main())
"""


def test_warnings_are_seen_as_they_are(tmp_path: Path) -> None:
    """LOG-1: by the handler of last resort; also what is logged just before a crash."""
    finished = programs.run("-c", LOGGING, "plain", cwd=tmp_path)
    assert finished.err.splitlines() == ["WWW", "WWW"]
    assert finished.out.splitlines() == ["WWW", "WWW", "1"]


def test_an_initializer_configures_logging(tmp_path: Path) -> None:
    """LOG-1: in each worker, so that records below warnings are seen as well."""
    finished = programs.run("-c", LOGGING, "configured", cwd=tmp_path)
    assert finished.err.splitlines() == ["INFO of app: III", "WARNING of app: WWW"] * 2


async def test_stdin_is_empty() -> None:
    """A job that reads stdin neither blocks nor takes what is meant for the program."""
    async with Pool(1) as pool:
        assert await pool.submit(loud.read_stdin) == "EOFError"


async def test_a_job_may_close_its_streams(capfd: pytest.CaptureFixture[str]) -> None:
    """STDIO-1: the worker goes on."""
    async with Pool(1) as pool:
        await pool.submit(loud.close_stdout)
        await pool.submit(loud.replace_stdout)
        await assert_sound(pool, 1)
        assert pool.stats().crashes == 0


async def test_stdout_may_be_opened_anew(capfd: pytest.CaptureFixture[str]) -> None:
    """UV-1: /dev/stdout is what it is in the parent."""
    async with Pool(1) as pool:
        await pool.submit(loud.reopen_stdout)
    assert capfd.readouterr().out == "REOPENED\n"


def test_a_program_without_stdout(tmp_path: Path) -> None:
    """STDIO-1: with stdout and stderr closed, as daemons may have it, jobs print to nowhere."""
    program = f"""\
import asyncio, os, sys
sys.path.insert(0, {programs.HOME!r})
import asyncpool
from tests.cases import loud
os.close(1)
os.close(2)
async def main():
    async with asyncpool.Pool(2) as pool:
        jobs = [pool.submit(loud.shout, number, sys.argv[1]) for number in range(20)]
        assert await asyncio.gather(*jobs) == list(range(20))
        assert pool.stats().crashes == 0
try:
    asyncio.run(main())
except BaseException as error:
    open("failed", "w").write(repr(error))
os._exit(0)
"""
    programs.run("-c", program, str(tmp_path / "marks"), cwd=tmp_path)
    failed = tmp_path / "failed"
    assert not failed.exists(), failed.read_text()
