"""The demo: what its runs come to, on real workers that really crash."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncpool.demo.json_lines import JsonLines
from asyncpool.demo.show import Ending, Show, named, play
from tests.support.commands import command
from tests.support.scripts import Finished

Told = list[dict[str, Any]]

SEED = 109
"""With it, workers 1 to 4 die of their first job at any rate from 1/3: a crash is certain."""

LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])


def show_of(
    numbers: Sequence[int], *, workers: int = 4, crash_rate: float = 1 / 3, seed: int = SEED
) -> Show:
    return Show(jobs=named(numbers), workers=workers, crash_rate=crash_rate, seed=seed, loop="any")


async def played(show: Show) -> tuple[Ending, Told]:
    """Play it in this process; return its end, and all that was told of it."""
    lines: list[str] = []
    ending = await play(show, JsonLines(show), lines.append)
    return ending, [json.loads(line) for line in lines]


def demo(directory: Path, *argv: str, env: dict[str, str | None] | None = None) -> Finished:
    return command(directory, "demo", *argv, env=env).run(within=60)


def of_kind(told: Told, *kinds: str) -> Told:
    return [line for line in told if line["event"] in kinds]


def steps_of(told: Told, job_id: str) -> list[str]:
    """Return the names of all that happened to a job, its worker's deaths included."""
    return [line["event"] for line in told if line.get("job_id") == job_id]


SURVIVED = ["JobSent", "JobStarted", "WorkerExited", "JobResent"]
FINISHED = ["JobSent", "JobStarted", "JobReturned", "JobFinished"]


async def test_every_job_comes_to_its_end_through_every_crash() -> None:
    ending, told = await played(show_of([18] * 12, crash_rate=0.5))
    assert ending.all_right
    assert ending.stats.crashes > 0
    for result in ending.results:
        crashes = len(result.attempts) - 1
        expected = ["JobSubmitted", *SURVIVED * crashes, *FINISHED]
        # Short jobs are also sent ahead; they come back if the one before takes long, or kills.
        assert without_sending_ahead(told, result.job_id) == expected


def without_sending_ahead(told: Told, job_id: str) -> list[str]:
    steps: list[str] = []
    for line in told:
        if line.get("job_id") != job_id:
            continue
        free = line["event"] == "JobResent" and not line["charged"]
        if free or line["event"] == "JobRecalled":
            assert steps.pop() == "JobSent"
        else:
            steps.append(line["event"])
    return steps


async def test_every_job_ends_once_and_only_then_the_show() -> None:
    """The original counted results: a duplicate ended it early, without another job's result."""
    ending, told = await played(show_of([15, 15, 15, 16, 16, 16], crash_rate=0.6))
    finished = [line["job_id"] for line in of_kind(told, "JobFinished")]
    assert sorted(finished) == sorted(result.job_id for result in ending.results)
    assert told[-1]["event"] == "Summary"
    assert [r.value for r in ending.results] == [610, 610, 610, 987, 987, 987]


async def test_a_crash_rate_of_nine_in_ten_ends_well() -> None:
    ending, told = await played(show_of([10, 11, 12, 13], crash_rate=0.9))
    assert ending.all_right
    assert ending.stats.crashes > 0
    crashed = [line for line in of_kind(told, "WorkerExited") if line["reason"] == "crashed"]
    assert {line["signal"] for line in crashed} == {"SIGSEGV"}
    assert len(crashed) == ending.stats.crashes
    assert ending.stats.crashes == sum(len(result.attempts) - 1 for result in ending.results)


async def test_each_replacement_is_told_with_whom_it_replaces() -> None:
    ending, told = await played(show_of([17] * 12, workers=2, crash_rate=0.5))
    pairs = {line["pid"]: line["replaces"] for line in of_kind(told, "WorkerStarted")}
    replaced = [pid for pid in pairs.values() if pid is not None]
    deaths = of_kind(told, "WorkerExited")
    crashed = [line["pid"] for line in deaths if line["reason"] == "crashed"]
    assert list(pairs.values())[:2] == [None, None]
    assert len(replaced) == len(pairs) - 2 == ending.replacements
    assert len(replaced) == len(set(replaced))
    assert set(replaced) <= set(crashed)


async def test_a_seed_repeats_the_crashes_of_a_single_worker() -> None:
    async def attempts(seed: int) -> list[int]:
        ending, _ = await played(show_of([5, 15], workers=1, crash_rate=0.5, seed=seed))
        return [len(result.attempts) for result in ending.results]

    first = await attempts(SEED)
    assert sum(first) > len(first)
    assert await attempts(SEED) == first
    assert await attempts(SEED + 1) != first


async def test_no_crashes_no_resends() -> None:
    ending, told = await played(show_of([10] * 8, crash_rate=0))
    assert ending.all_right
    assert (ending.stats.crashes, ending.stats.resent, ending.replacements) == (0, 0, 0)
    started = Counter(line["job_id"] for line in of_kind(told, "JobStarted"))
    assert set(started.values()) == {1}


async def test_a_job_that_fails_is_told_and_is_not_right() -> None:
    ending, told = await played(show_of([5, 100_000], crash_rate=0))
    assert [result.right for result in ending.results] == [True, False]
    assert not ending.all_right
    assert (ending.results[1].error or "").startswith("RecursionError: ")
    (failed,) = [line for line in of_kind(told, "JobFinished") if line["state"] == "failed"]
    assert failed["job_id"] == "fib-100000-1"


@LOOPS
def test_json_is_one_object_a_line_and_a_summary_at_the_end(tmp_path: Path, loop: str) -> None:
    argv = ["--json", "--jobs", "20,20,21", "--workers", "2", "--seed", "5", "--loop", loop]
    done = demo(tmp_path, *argv)
    *told, summary = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, done.stderr) == (0, "")
    assert all({"event", "elapsed", "time"} <= line.keys() for line in told)
    assert {line["n"] for line in told if line["event"] == "JobStarted"} == {20, 21}
    assert summary["event"] == "Summary"
    assert (summary["jobs"], summary["right"], summary["workers"]) == (3, 3, 2)
    assert (summary["seed"], summary["loop"]) == (5, loop)
    results = {r["job_id"]: (r["n"], r["value"], r["right"]) for r in summary["results"]}
    assert results == {
        "fib-20-1": (20, 6765, True),
        "fib-20-2": (20, 6765, True),
        "fib-21-1": (21, 10946, True),
    }
    assert summary["results"][0]["attempts"][-1]["outcome"] == "done"


@LOOPS
def test_people_get_events_a_table_and_a_summary(tmp_path: Path, loop: str) -> None:
    argv = ["--jobs", "20,21,22,20", "--crash-rate", "0.6", "--seed", str(SEED), "--loop", loop]
    done = demo(tmp_path, *argv)
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0] == f"4 jobs on 4 workers, crash rate 0.6, seed {SEED}, {loop}"
    assert lines[-1].startswith("4 of 4 results right in ")
    words = {line.split()[1] for line in lines if re.match(r" +\d+\.\d{3} ", line)}
    assert {"started", "sent", "ACKed", "crashed", "resent", "returned"} <= words
    assert any(line.endswith("  SIGSEGV") for line in lines)
    assert any(line.startswith("fib-22-1   22   17711  ") for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_failed_job_makes_the_exit_code_1(tmp_path: Path) -> None:
    done = demo(tmp_path, "--jobs", "100000,10", "--crash-rate", "0")
    assert done.returncode == 1
    assert "\n1 job failed: RecursionError: " in done.stdout
    assert "\n1 of 2 results right in " in done.stdout
    assert done.stderr == ""


@LOOPS
def test_workers_that_crash_at_their_start_do_not_hang_it(tmp_path: Path, loop: str) -> None:
    """START-1: the original waited for ever."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\nif 'asyncpool.worker' in ' '.join(sys.orig_argv): os._exit(9)\n"
    )
    path = ":".join([str(tmp_path), *filter(None, sys.path)])
    argv = ["--jobs", "10,11", "--workers", "2", "--loop", loop]
    done = demo(tmp_path, *argv, env={"PYTHONPATH": path})
    assert done.returncode == 1
    assert "did not start: exit code 9" in done.stdout
    assert "\n2 jobs failed: WorkerStartError: " in done.stdout


@pytest.mark.parametrize(("no_color", "coloured"), [(None, True), ("", True), ("1", False)])
def test_colour_is_for_terminals_without_no_color(
    tmp_path: Path, no_color: str | None, coloured: bool
) -> None:
    env = {"NO_COLOR": no_color, "TERM": "xterm"}
    script = command(tmp_path, "demo", "--jobs", "10", "--crash-rate", "0", env=env)
    done = script.run_in_terminal()
    assert done.returncode == 0
    assert ("\033[32m" in done.stdout) == coloured
    assert ("\033" in done.stdout) == coloured
    assert "\033" not in script.run().stdout
