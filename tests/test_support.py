"""The instruments of the tests measure what they say."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from tests.support import jobs, procs
from tests.support.heartbeat import Heartbeat
from tests.support.marks import Marks, mark
from tests.support.scripts import Finished, How, Script


async def test_async_tests_run_on_the_loop_that_their_name_tells(
    request: pytest.FixtureRequest,
) -> None:
    on_uvloop = isinstance(asyncio.get_running_loop(), uvloop.Loop)
    assert request.node.name.endswith("[uvloop]" if on_uvloop else "[asyncio]")


@pytest.mark.loops("uvloop")
async def test_a_test_can_be_restricted_to_a_loop() -> None:
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)


def test_complaints_can_be_meant(complaints: list[str]) -> None:
    with asyncio.Runner() as runner:
        runner.get_loop().call_exception_handler({"message": "this was meant"})
    assert "this was meant" in complaints.pop()


def test_marks_count_the_runs(marks: Marks) -> None:
    assert marks.count() == 0
    mark(marks.path)
    mark(marks.path, "again")
    assert (marks.count(), marks.count("again"), marks.lines()) == (2, 1, ["", "again"])


def test_a_mark_is_one_line(marks: Marks) -> None:
    with pytest.raises(ValueError, match="one line"):
        mark(marks.path, "a\nb")


def test_descendants_are_found_at_any_depth() -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE)
    with shell:
        assert shell.stdout is not None
        grandchild = int(shell.stdout.readline())
        assert {shell.pid, grandchild} <= set(procs.kids())
        os.kill(grandchild, signal.SIGKILL)


async def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        await procs.eventually(lambda: process.pid in procs.zombies(), what="a zombie")
        assert not procs.alive(process.pid)
        assert process.pid not in procs.kids()
    assert process.pid not in procs.zombies()


def test_a_process_that_never_was_is_not_alive() -> None:
    assert procs.alive(os.getpid())
    assert not procs.alive(2**22 + 1)


def test_descriptors_come_with_what_they_lead_to() -> None:
    before = procs.fds()
    with open("/dev/zero") as file:
        assert procs.fds() == {**before, file.fileno(): "/dev/zero"}
    assert procs.fds() == before


def test_resident_memory_follows_what_is_allocated() -> None:
    before = procs.rss()
    ballast = bytearray(64 << 20)
    assert procs.rss() - before > len(ballast) // 2


async def test_eventually_returns_what_came_true_or_says_what_did_not() -> None:
    assert await procs.eventually(lambda: "yes") == "yes"
    with pytest.raises(pytest.fail.Exception, match="the moon"):
        await procs.eventually(lambda: False, within=0.02, what="the moon is green")


async def test_the_heartbeat_notices_a_blocked_loop() -> None:
    async with Heartbeat() as heartbeat:
        await asyncio.sleep(0.03)
        time.sleep(0.2)
    assert 0.2 <= heartbeat.longest < 2


DEATHS = {
    "exit": jobs.EXIT_CODE,
    "abort": -signal.SIGABRT,
    "segv": -signal.SIGSEGV,
    "sigbus": -signal.SIGBUS,
    "sigkill": -signal.SIGKILL,
}


@pytest.mark.parametrize("how", DEATHS)
def test_deaths_are_real(how: str, tmp_path: Path) -> None:
    done = Script(f"from tests.support.jobs import die; die({how!r})", tmp_path).run()
    assert done.returncode == DEATHS[how]


@pytest.mark.parametrize("how", ["file", "-m", "-c", "stdin"])
def test_scripts_run_in_each_way(how: How, tmp_path: Path) -> None:
    source = "import os, sys; print(sys.argv[1], os.getsid(0) == os.getpid(), end=''); sys.exit(4)"
    done = Script(source, tmp_path, how=how, argv=["x"]).run()
    assert done == Finished(4, "x True", "")


def test_a_script_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    script = Script("import time; print('hello', flush=True); time.sleep(60)", tmp_path)
    with pytest.raises(pytest.fail.Exception, match=r"still running after 1 s(?s:.*)hello"):
        script.run(within=1)


def test_a_script_has_a_terminal_and_ctrl_c(tmp_path: Path) -> None:
    script = Script(
        """
        import signal, sys
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        print("tty:", sys.stdin.isatty() and sys.stdout.isatty(), input())
        sys.exit(0 if signal.sigwait({signal.SIGINT}) == signal.SIGINT else 1)
        """,
        tmp_path,
    )
    with script.in_terminal() as terminal:
        terminal.type("typed\n")
        terminal.until("tty: True typed\n")
        terminal.type("\x03")
        assert terminal.finish().returncode == 0


def test_the_interactive_interpreter_runs_in_a_terminal(tmp_path: Path) -> None:
    script = Script("x = 20", tmp_path, flags=["-i"], env={"TERM": "dumb"})
    done = script.run_in_terminal("print('answer', x + 22)\nexit(6)\n")
    assert done.returncode == 6
    assert "\nanswer 42\n" in done.stdout


@pytest.mark.parametrize(
    ("job", "value"),
    [
        (lambda: jobs.add(1, 2), 3),
        (lambda: jobs.echo("x"), "x"),
        (lambda: jobs.fib(10), 55),
        (lambda: jobs.sleep_return(0, "x"), "x"),
    ],
)
def test_jobs_return_their_values(job: Callable[[], object], value: object) -> None:
    assert job() == value
