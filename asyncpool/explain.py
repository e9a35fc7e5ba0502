"""How an ending becomes the exception that the caller gets, with its story in one line."""

from __future__ import annotations

import re
import signal

from . import raised
from .dispatch.decisions import Crash, Ending, Failure, NoWorkers, Overrun, Refused
from .dispatch.records import PARENT_DIED, Death, JobRecord
from .errors import (
    AsyncPoolError,
    JobExited,
    JobTimeout,
    SerializationError,
    WorkerCrashed,
    WorkerStartError,
)
from .jobs import Attempt

ADVICE = "An exception crosses if its class passes all it is given to super().__init__()"


def explain(job: JobRecord, attempts: tuple[Attempt, ...], ending: Ending) -> BaseException:
    """Return the exception for a job that ended in any way but by a value."""
    if isinstance(ending, Failure):
        return failure(job, attempts, raised.decode(ending.error))
    if isinstance(ending, Crash):
        return _crashed(job, attempts, ending)
    if isinstance(ending, Overrun):
        return _timed_out(job, attempts, ending)
    if isinstance(ending, NoWorkers):
        return no_workers(ending)
    if isinstance(ending, Refused):
        return ending.error
    raise AsyncPoolError(f"job {job.id} ended in an unknown way: {ending!r}")


def _who(job: JobRecord) -> str:
    return f"job {job.id} ({job.function.name})"


# The function raised, or something did not cross


def failure(job: JobRecord, attempts: tuple[Attempt, ...], what: raised.Raised) -> BaseException:
    """Return the exception that the function raised, or why it cannot be had."""
    kind, type_name, message, traceback, pickled = what
    said = f"{type_name}: {message}" if message else type_name
    error: BaseException
    if kind == raised.OWN and pickled is not None:
        try:
            error = raised.load(pickled)
        except BaseException as failed:
            error = _serialization(
                f"{_who(job)} raised an exception that cannot be rebuilt here "
                f"({type(failed).__name__}: {raised.text(failed)}); it was {said}. {ADVICE}",
                job,
                attempts,
            )
            error.__cause__ = failed.with_traceback(None)  # whose frames would make a cycle
    elif kind == raised.EXITED:
        error = JobExited(
            f"{_who(job)} raised {said}, which is not an Exception",
            job_id=job.id,
            fn_name=job.function.name,
            attempts=attempts,
        )
    else:
        text = {
            raised.EXCEPTION: f"raised an exception that does not pickle: {said}. {ADVICE}",
            raised.RESULT: f"returned a {type_name} that does not pickle: {message}",
            raised.ARGUMENT: f"has arguments that cannot be rebuilt in the worker: {said}",
            raised.FUNCTION: f"cannot be loaded in the worker: {said}",
        }[kind]
        error = _serialization(f"{_who(job)} {text}", job, attempts)
    return with_traceback(_fit_for_a_future(error), traceback)


def _serialization(text: str, job: JobRecord, attempts: tuple[Attempt, ...]) -> SerializationError:
    return SerializationError(text, job_id=job.id, fn_name=job.function.name, attempts=attempts)


def _fit_for_a_future(error: BaseException) -> BaseException:
    """A future refuses StopIteration, which would end the generator that awaits it."""
    if isinstance(error, StopIteration):
        wrapped = RuntimeError("the job raised StopIteration")
        wrapped.__cause__ = error
        return wrapped
    return error


def with_traceback(error: BaseException, traceback: str) -> BaseException:
    """Add the worker's traceback, as a note: cause and context stay the function's own."""
    note = f"\nTraceback in the worker:\n\n{traceback.rstrip()}"
    try:
        error.add_note(note)
    except Exception:  # its __notes__ are no list, or it is a frozen dataclass
        try:
            if not hasattr(error, "__notes__"):
                object.__setattr__(error, "__notes__", [note])
        except Exception:  # nor has it a sane __getattr__
            pass
    return error


def unpickling_failed(
    job: JobRecord, attempts: tuple[Attempt, ...], failed: BaseException
) -> SerializationError:
    """Return the error for a result that cannot be rebuilt in this process."""
    error = _serialization(
        f"{_who(job)} returned a value that cannot be rebuilt here: "
        f"{type(failed).__name__}: {raised.text(failed)}",
        job,
        attempts,
    )
    error.__cause__ = failed.with_traceback(None)  # whose frames would make a cycle
    return error


# The worker died or was killed


def _crashed(job: JobRecord, attempts: tuple[Attempt, ...], crash: Crash) -> WorkerCrashed:
    death = crash.death
    if death.why and death.why != PARENT_DIED:
        cause = f"broke the protocol and was killed ({death.why})"
    else:
        cause = cause_of(death)
    text = f"{_who(job)} {_times(job.crashes)}: worker {crash.pid} {cause}"
    text += f" {crash.ran_for:.3g} s into attempt {len(attempts)}"
    if where := innermost_frame(death.stack):
        text += f", in {where}"
    if death.stderr:
        text += f"; its last words: {death.stderr.splitlines()[-1][:200]}"
    return WorkerCrashed(
        text,
        job_id=job.id,
        fn_name=job.function.name,
        attempts=attempts,
        pid=crash.pid,
        exit_code=death.exit_code,
        signal=death.signal,
        stack=death.stack,
        oom=death.oom,
        stderr=death.stderr,
    )


def _times(crashes: int) -> str:
    if crashes == 1:
        return "is given up after its worker died"
    return f"is given up after {crashes} workers died under it, most recently"


def cause_of(death: Death) -> str:
    """Say in a few words how a worker ended."""
    if death.signal is not None:
        text = f"was killed by {signal_name(death.signal)}"
        if death.oom:
            text += " of the kernel's out-of-memory killer"
        return text
    if death.exit_code is not None:
        return f"exited with code {death.exit_code}"
    if death.why == PARENT_DIED:
        return f"was running it when {death.why},"
    if death.why:
        return f"did not come to life: {death.why}"
    # asyncio says 255 in both cases.
    return "died with exit status unknown (255, or other code in this program reaped it)"


def innermost_frame(stack: str | None) -> str | None:
    """Return file, line and function of the innermost frame of a faulthandler dump.

    Of several threads it is the one that was hit, which need not come first.
    """
    threads = (stack or "").split("\n\n")
    threads.sort(key=lambda text: not text.startswith("Current thread"))
    found = re.search(r'File "(.*?)", line (\d+) in (.*)', "\n".join(threads))
    return f"{found[3]} ({found[1]}:{found[2]})" if found else None


def _timed_out(job: JobRecord, attempts: tuple[Attempt, ...], overrun: Overrun) -> JobTimeout:
    stack = overrun.death.stack if overrun.death is not None else None
    if overrun.timeout is not None:
        limit: float = overrun.timeout
        text = f"{_who(job)} ran longer than its timeout of {limit:g} s and was stopped"
    else:
        limit = job.deadline - job.submitted_at
        waited = "was stopped" if attempts else "never ran"
        text = f"{_who(job)} missed its deadline of {limit:g} s and {waited}"
    if where := innermost_frame(stack):
        text += f", in {where}"
    return JobTimeout(
        text,
        job_id=job.id,
        fn_name=job.function.name,
        attempts=attempts,
        timeout=limit,
        stack=stack,
    )


def no_workers(ending: NoWorkers) -> WorkerStartError:
    """Return the error for jobs that wait when no worker can be started."""
    death = ending.death
    text = f"no worker could be started, {ending.tries} tries failed; the last one "
    text += cause_of(death)
    if death.stderr:
        text += f", and said:\n{death.stderr}"
    return WorkerStartError(text, stderr=death.stderr or death.why)


def signal_name(number: int) -> str:
    """Return `SIGSEGV` and the like."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
