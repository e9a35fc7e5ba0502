"""Workers that cannot start: whoever waits is told why, soon, and later everything works again."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from asyncpool import Pool, WorkerStartError
from tests.cases import chores
from tests.cases.soundness import assert_sound, full_crew
from tests.support import jobs, procs
from tests.support.marks import Marks

MOST_TRIES = 10
SITE_SECONDS = 10.0


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sitecustomize.py, empty yet, that every interpreter started from here executes first."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder))
    path = folder / "sitecustomize.py"
    path.touch()
    return path


@pytest.fixture(autouse=True)
def shorter_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have as many tries, in less time."""
    monkeypatch.setattr("asyncpool.dispatch.starts.FIRST_PAUSE", 0.03)


def counting(site: Path, code: str, marks: Marks) -> None:
    """Have each start counted, and then end in this way."""
    count = f"import os; fd = os.open({marks.path!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)"
    site.write_text(f"{count}\nos.write(fd, b'tried\\n')\nos.close(fd)\n{code}\n")


async def failing_start(pool: Pool, count: int = 3) -> WorkerStartError:
    """Submit some jobs, which all have to fail, within the time and without burning a CPU."""
    loop = asyncio.get_running_loop()
    begun, burnt = loop.time(), time.process_time()
    waiting = [pool.submit(jobs.add, i, 1) for i in range(count)]
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert loop.time() - begun < SITE_SECONDS
    assert time.process_time() - burnt < 2.0
    errors = [end for end in ends if isinstance(end, WorkerStartError)]
    assert len(errors) == len(ends)
    return errors[0]


# START-1


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys; sys.stderr.write('cannot start here\\n'); os._exit(1)", "cannot start here"),
        ("os.write(2, b'about to crash\\n'); import ctypes; ctypes.string_at(0)", "about to crash"),
        ("os.write(2, b'x' * 100_000 + b'\\nthe end of it\\n'); os._exit(1)", "the end of it"),
    ],
    ids=["exits", "segfaults", "after_much_output"],
)
async def test_workers_that_die_at_start_tell_why(
    site: Path, marks: Marks, code: str, said: str
) -> None:
    """START-1."""
    counting(site, code, marks)
    async with Pool(2) as pool:
        error = await failing_start(pool)
        assert said in error.stderr
        assert said in str(error)
        assert marks.count() <= MOST_TRIES
        site.write_text("")
        await assert_sound(pool, 2)
    async with Pool(2) as pool:
        await assert_sound(pool, 2)


async def test_workers_that_hang_at_start_are_given_up(
    site: Path, marks: Marks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """START-1."""
    counting(site, "import time; time.sleep(60)", marks)
    for module in ("starts", "watch", "roster"):
        monkeypatch.setattr(f"asyncpool.dispatch.{module}.HANGING", 3.0)
    async with Pool(2) as pool:
        error = await failing_start(pool)
        assert "killed" in str(error)
        assert marks.count() <= MOST_TRIES
        site.write_text("")
        await assert_sound(pool, 2)


@pytest.mark.parametrize(
    "code",
    [
        "raise LookupError('no site today')",
        "import sys; sys.stdout.write('x' * 1_000_000); sys.stdout.flush()",
        "os.write(2, b'y' * 200_000)",
    ],
    ids=["raises", "prints", "complains"],
)
async def test_what_the_interpreter_survives_is_survived(
    site: Path, marks: Marks, code: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """START-1: site only reports what sitecustomize raises, and output is no protocol."""
    counting(site, code, marks)
    async with Pool(2) as pool:
        await assert_sound(pool, 2)
    assert marks.count() == 2
    assert len(capfd.readouterr()[0]) in (0, 2_000_000)


# The initializer, and what is preloaded


async def test_a_failing_initializer_fails_those_who_wait(tmp_path: Path, marks: Marks) -> None:
    """START-1."""
    broken = tmp_path / "broken"
    broken.touch()
    initargs = (str(broken), marks.path)
    async with Pool(2, initializer=chores.fail_while_there, initargs=initargs) as pool:
        error = await failing_start(pool)
        assert "LookupError: no model to be found, says the initializer" in error.stderr
        assert "fail_while_there" in str(error)
        assert marks.count() <= MOST_TRIES
        tried = marks.count()
        assert procs.kids() == []
        assert len(await again_fails(pool)) == 1
        assert tried < marks.count() <= tried + MOST_TRIES
        broken.unlink()
        await assert_sound(pool, 2)


async def again_fails(pool: Pool) -> list[WorkerStartError]:
    """Show that a later submit tries again, and fails again while the cause is there."""
    return [await failing_start(pool, 1)]


async def test_a_failing_preload_fails_those_who_wait() -> None:
    """START-1."""
    async with Pool(1, preload=["json", "no_such_module_anywhere"]) as pool:
        error = await failing_start(pool)
        assert "No module named 'no_such_module_anywhere'" in str(error)


async def test_an_initializer_that_exits_is_a_failing_start(marks: Marks) -> None:
    """START-1."""
    async with Pool(1, initializer=sys.exit, initargs=(7,)) as pool:
        error = await failing_start(pool)
        assert "exited with code 7" in str(error)


async def test_a_pool_whose_workers_do_not_start_can_be_left_at_once(marks: Marks) -> None:
    """START-1."""
    initargs = ("/", marks.path)  # always there
    async with asyncio.timeout(SITE_SECONDS):
        async with Pool(2, initializer=chores.fail_while_there, initargs=initargs):
            pass
        async with Pool(2, initializer=chores.fail_while_there, initargs=initargs) as pool:
            job = pool.submit(jobs.add, 1, 2)
    assert isinstance(job.exception(), WorkerStartError)


async def test_jobs_can_be_cancelled_while_no_worker_starts(marks: Marks) -> None:
    """START-1."""
    async with Pool(1, initializer=chores.fail_while_there, initargs=("/", marks.path)) as pool:
        job = pool.submit(jobs.add, 1, 2)
        assert job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job


async def test_an_initializer_that_fails_once_is_no_harm(tmp_path: Path, marks: Marks) -> None:
    """START-1."""
    broken = tmp_path / "broken"
    broken.touch()
    initargs = (str(broken), marks.path)
    async with Pool(2, initializer=chores.fail_while_there, initargs=initargs) as pool:
        job = pool.submit(jobs.add, 1, 2)
        await procs.eventually(marks.count)
        broken.unlink()
        assert await job == 3
        await assert_sound(pool, 2)
        assert pool.stats().crashes == 0


async def test_preload_and_initializer_have_run_when_a_worker_is_ready(marks: Marks) -> None:
    initargs = ("/no/such/file", marks.path)
    options = {"initializer": chores.fail_while_there, "initargs": initargs}
    async with Pool(2, preload=("wave",), **options) as pool:  # type: ignore[arg-type]
        await full_crew(pool, 2)
        assert marks.count() == 2
        assert await pool.submit(has_loaded, "wave")


def has_loaded(name: str) -> bool:
    return name in sys.modules


# The interpreter


async def test_a_missing_interpreter_fails_those_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """START-1."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    monkeypatch.setattr("asyncpool.dispatch.starts.SYSTEM_PATIENCE", 1.0)
    async with Pool(2) as pool:
        error = await failing_start(pool)
        assert "FileNotFoundError" in str(error)
        assert str(tmp_path / "gone") in str(error)
        monkeypatch.undo()
        await assert_sound(pool, 2)


async def test_an_interpreter_that_comes_back_in_time_is_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """START-1."""
    path = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(path))
    async with Pool(1) as pool:
        job = pool.submit(jobs.add, 1, 2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(job), 0.5)
        monkeypatch.undo()
        os.symlink(sys.executable, path)
        assert await job == 3
        await assert_sound(pool, 1)


@pytest.mark.parametrize("executable", ["", None])
async def test_an_unknown_interpreter_fails_those_who_wait(
    monkeypatch: pytest.MonkeyPatch, executable: str | None
) -> None:
    """START-1."""
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr("asyncpool.dispatch.starts.SYSTEM_PATIENCE", 0.0)
    async with Pool(1) as pool:
        error = await failing_start(pool)
        assert "sys.executable is empty" in str(error)


async def test_an_interpreter_that_is_something_else_fails_those_who_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """START-1."""
    monkeypatch.setattr(sys, "executable", "/bin/true")
    async with Pool(1) as pool:
        error = await failing_start(pool)
        assert "exited with code 0" in str(error)
