"""The show as people see it: lines of 80 columns, in colour if wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ..events import (
    Event,
    EventsLost,
    JobEvent,
    JobFinished,
    JobRecalled,
    JobResent,
    JobReturned,
    JobSent,
    JobStarted,
    WorkerExited,
    WorkerStarted,
)
from ..explain import signal_name
from ..jobs import Outcome
from .show import Ending, Result, Show

DIM, RED, GREEN, YELLOW, CYAN, PLAIN = "2", "1;31", "32", "33", "36", ""

PIDS_SHOWN = 4
"""Of a job that needed more workers, the first and the last two are shown."""


class Told(NamedTuple):
    """An event in a few words."""

    word: str
    note: str = ""
    colour: str = PLAIN


def tell(event: Event, predecessors: Mapping[int, int]) -> Told | None:
    """Put an event in words; None: another event tells the same."""
    if isinstance(event, JobEvent):
        return _tell_of_job(event)
    return _tell_of_worker(event, predecessors)


def _tell_of_job(event: JobEvent) -> Told | None:
    match event:
        case JobSent():
            return Told("sent", colour=DIM)
        case JobStarted():
            return Told("ACKed", f"attempt {event.attempt}")
        case JobReturned(outcome=Outcome.ERROR):
            return Told("raised", colour=RED)
        case JobReturned():
            return Told("returned", colour=GREEN)
        case JobRecalled():
            return Told("recalled", "had not begun", DIM)
        case JobResent():
            return Told("resent", "goes back to the queue", YELLOW)
        case JobFinished(error=str(error)):
            return Told("failed", error.partition("\n")[0], RED)
    return None


def _tell_of_worker(event: Event, predecessors: Mapping[int, int]) -> Told | None:
    match event:
        case WorkerStarted(pid=int(pid)) if pid in predecessors:
            return Told("replaced", f"takes the place of {predecessors[pid]}", CYAN)
        case WorkerStarted():
            return Told("started", colour=DIM)
        case WorkerExited(reason="closed"):
            return Told("closed", colour=DIM)
        case WorkerExited(reason="crashed"):
            return Told("crashed", cause_of(event), RED)
        case WorkerExited():
            return Told("lost", f"{event.reason}: {cause_of(event)}", RED)
        case EventsLost():
            return Told("missed", f"{event.count} events", RED)
    return None


def cause_of(death: WorkerExited) -> str:
    """Name what a worker died of."""
    if death.signal is not None:
        return signal_name(death.signal)
    return "unknown cause" if death.exit_code is None else f"exit code {death.exit_code}"


class Text:
    """Tells a show to people."""

    def __init__(self, show: Show, *, coloured: bool) -> None:
        self._show = show
        self._coloured = coloured
        self._id_width = max(map(len, show.jobs))
        self._call_width = max(map(len, map(_call, show.jobs.values())))

    def opening(self) -> list[str]:
        """Return what is played, and the heads of the columns."""
        show = self._show
        jobs, workers = _count(len(show.jobs), "job"), _count(show.workers, "worker")
        how = f"crash rate {show.crash_rate:.2g}, seed {show.seed}, {show.loop}"
        heads = self._row("time", "event", "job", "call", "worker", "")
        return [f"{jobs} on {workers}, {how}", "", self._paint(DIM, heads)]

    def event(self, event: Event, elapsed: float, predecessors: Mapping[int, int]) -> list[str]:
        """Return the line for an event, if it needs one."""
        told = tell(event, predecessors)
        if told is None:
            return []
        job_id = getattr(event, "job_id", None)
        call = _call(self._show.jobs[job_id]) if job_id else ""
        pid = None if isinstance(event, JobResent) else getattr(event, "pid", None)
        row = self._row(f"{elapsed:.3f}", told.word, job_id or "", call, str(pid or ""), told.note)
        return [self._paint(told.colour, row)]

    def ending(self, ending: Ending) -> list[str]:
        """Return the table of the results and the summary."""
        width = max(len("result"), *(len(str(result.value)) for result in ending.results))
        head = f"{'job':<{self._id_width}}    n  {'result':>{width}}  attempts  workers"
        rows = [self._result(result, width) for result in ending.results]
        errors = Counter(result.error for result in ending.results if result.error)
        failures = [f"\n{_count(count, 'job')} failed: {error}" for error, count in errors.items()]
        return ["", self._paint(DIM, head), *rows, *failures, "", self._summary(ending)]

    def _row(self, time: str, word: str, job_id: str, call: str, pid: str, note: str) -> str:
        job = f"{job_id:<{self._id_width}}  {call:<{self._call_width}}"
        return f"{time:>7}  {word:<8}  {job}  {pid:>7}  {note}".rstrip()

    def _result(self, result: Result, width: int) -> str:
        value = "failed" if result.value is None else str(result.value)
        job = f"{result.job_id:<{self._id_width}}  {result.n:>3}"
        verdict = self._paint(RED, "  wrong") if not (result.right or result.error) else ""
        line = f"{job}  {value:>{width}}  {len(result.attempts):>8}  {self._pids(result)}{verdict}"
        return line.rstrip()

    def _pids(self, result: Result) -> str:
        pids = [
            self._paint(GREEN if attempt.outcome is Outcome.DONE else RED, str(attempt.pid))
            for attempt in result.attempts
        ]
        if len(pids) > PIDS_SHOWN:
            pids[1:-2] = [".."]
        return " ".join(pids)

    def _summary(self, ending: Ending) -> str:
        verdict = f"{ending.right} of {_count(len(ending.results), 'result')} right"
        survived = [
            f"{_count(ending.stats.crashes, 'crash', 'crashes')} survived",
            _count(ending.stats.resent, "resend"),
            _count(ending.replacements, "replacement"),
        ]
        colour = GREEN if ending.all_right else RED
        return f"{self._paint(colour, verdict)} in {ending.seconds:.1f} s: {', '.join(survived)}"

    def _paint(self, colour: str, text: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._coloured and colour else text


def _call(n: int) -> str:
    return f"fib({n})"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
