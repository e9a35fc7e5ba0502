"""Ctrl-C ends a program that has a pool at once, once, and quietly."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support import procs
from tests.support.loops import LOOPS
from tests.support.marks import Marks
from tests.support.scripts import Script

# The pool says when it is as busy as the test wants it.
PROGRAM = """
    import asyncio, signal, sys, time
    from tests.cases import chores
    from tests.cases.soundness import full_crew
    from tests.support.loops import LOOPS
    import asyncpool

    async def main():
        async with asyncpool.Pool(3) as pool:
            await full_crew(pool, 3)
            {work}

    with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
        runner.run(main())
"""

IDLE = """
            running = [pool.submit(chores.sleep_between_marks, sys.argv[2], 30.0) for _ in range(2)]
            await asyncio.gather(*(job.started() for job in running))
            print("busy", flush=True)
            await asyncio.gather(*running)
"""
FULL = """
            submit = pool.submit
            jobs = [submit(chores.sleep_between_marks, sys.argv[2], 30.0) for _ in range(8)]
            await asyncio.gather(*(job.started() for job in jobs[:3]))
            print("busy", flush=True)
            await asyncio.gather(*jobs)
"""
LEAVING = """
            submit = pool.submit
            jobs = [submit(chores.sleep_between_marks, sys.argv[2], 30.0) for _ in range(8)]
            await asyncio.gather(*(job.started() for job in jobs[:3]))
            print("busy", flush=True)
"""
# Without the runner's handler Ctrl-C interrupts whatever the loop is doing.
ABRUPT = """
            signal.signal(signal.SIGINT, signal.default_int_handler)
            job = pool.submit(chores.sleep_between_marks, sys.argv[2], 30.0)
            await job.started()
            print("busy", flush=True)
            time.sleep(30)
"""

COMPLAINTS = ("never retrieved", "Exception ignored", "never awaited", "asyncpool worker", "leaked")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "work",
    [IDLE, FULL, LEAVING, ABRUPT],
    ids=["one_idle", "full", "leaving", "abrupt"],
)
def test_ctrl_c_ends_the_program_once_and_quietly(
    tmp_path: Path, marks: Marks, loop: str, work: str
) -> None:
    """CTRLC-1."""
    script = Script(PROGRAM.format(work=work), tmp_path, argv=[loop, marks.path])
    with script.in_terminal() as terminal:
        terminal.until("busy\n", within=20.0)
        workers = procs.kids(terminal.process.pid)
        assert len(workers) == 3
        terminal.type("\x03")
        finished = terminal.finish(within=3.0)
    assert finished.returncode in (-signal.SIGINT, 130)
    assert finished.stdout.count("Traceback (most recent call last)") <= 2
    assert finished.stdout.rstrip().endswith("KeyboardInterrupt")
    assert [text for text in COMPLAINTS if text in finished.stdout] == []
    assert not any(procs.alive(pid) for pid in workers)
    assert "end" not in marks.lines()


@pytest.mark.parametrize("loop", LOOPS)
def test_a_program_that_catches_ctrl_c_goes_on(tmp_path: Path, marks: Marks, loop: str) -> None:
    """CTRLC-1."""
    source = f"""
{PROGRAM.format(work=FULL).rsplit("    with", 1)[0]}
    from tests.support import jobs
    from tests.cases.soundness import assert_sound

    async def again():
        async with asyncpool.Pool(2) as pool:
            await assert_sound(pool, 2)
        print("sound")

    try:
        with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
            runner.run(main())
    except KeyboardInterrupt:
        print("caught")
    with asyncio.Runner(loop_factory=LOOPS[sys.argv[1]]) as runner:
        runner.run(again())
"""
    with Script(source, tmp_path, argv=[loop, marks.path]).running() as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (out, err, process.returncode) == ("caught\nsound\n", "", 0)


@pytest.mark.parametrize("loop", LOOPS)
def test_ctrl_c_of_the_terminal_does_not_reach_the_workers(
    tmp_path: Path, marks: Marks, loop: str
) -> None:
    """CTRLC-1: a program that heeds no Ctrl-C keeps its jobs."""
    work = """
            signal.signal(signal.SIGINT, lambda *_: print("heard", flush=True))
            job = pool.submit(chores.sleep_between_marks, sys.argv[2], 1.0)
            await job.started()
            print("busy", flush=True)
            print(await job, pool.stats().crashes)
"""
    script = Script(PROGRAM.format(work=work), tmp_path, argv=[loop, marks.path])
    with script.in_terminal() as terminal:
        terminal.until("busy\n", within=20.0)
        terminal.type("\x03")
        finished = terminal.finish(within=20.0)
    assert finished.stdout.splitlines()[-2:] == ["^Cheard", "slept 0"]
    assert (finished.returncode, marks.lines()) == (0, ["begin", "end"])
